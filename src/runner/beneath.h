// SPDX-License-Identifier: Apache-2.0
// Paths that a program may have changed in any way: resolved beneath a directory, following no link
// and entering no other file system (openat2(2)).
#pragma once

#include <cstdint>
#include <string_view>

namespace cloister::runner {

// True for a relative path without empty, `.` or `..` components, NUL or excess length.
bool isPlainPath(std::string_view path);

// As openat(2), with O_CLOEXEC and O_NOFOLLOW. -1 with errno: ELOOP where a link is in the way,
// ENOLCK where O_NONBLOCK would wait for a program's lease on the file.
int openBeneath(int dir, const char* path, uint64_t flags, uint64_t mode = 0);

// Makes the directories above the last component; restores `path`. Returns errno. The caller's open
// detects an existing component that is no directory.
int makeParents(int dir, char* path);

}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
// Archives of a session's files: POSIX pax (IEEE Std 1003.1, pax(1)), written and read; GNU tar's
// long names are read too. For the file server (runner/files.h).
#pragma once

#include <cstdint>

#include "runner/answer.h"

namespace cloister::runner {

// Writes the archive of what `fd` is: a regular file under `name`, or a directory's contents.
// Regular files, directories and links go in, everything else is left out. Returns errno.
int pack(int fd, const char* name, Answer& answer);

// Makes what the archive on stdin says, beneath `directory`: regular files, directories, links to
// anything (which nothing here follows) and hard links within the archive, with their times and the
// modes rwx of files and directories. Owners and other modes are not taken over. Other kinds are
// left out and counted. Returns errno: EINVAL for what is not an archive, or for a name that is not
// plain; what came before it stays.
int unpack(int directory, uint32_t& left_out);

}  // namespace cloister::runner

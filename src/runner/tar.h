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

// Writes one archive of the workspace's content and, by absolute paths, the home directory's. Both
// are open directories. Returns errno.
int packSaved(int workspace, int home, Answer& answer);

// Unpacks the archive on stdin beneath `directory`: regular files, directories, links to anything
// (never followed here) and hard links within the archive, with their times and the modes rwx of
// files and directories. Ignores owners and other mode bits. Other kinds are left out and counted.
// Returns errno: EINVAL for other data, or for a name that is not plain; earlier entries stay.
int unpack(int directory, uint32_t& left_out);
// The same for an archive of packSaved(), into both directories.
int unpackSaved(int workspace, int home, uint32_t& left_out);

}  // namespace cloister::runner

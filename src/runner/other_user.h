// SPDX-License-Identifier: Apache-2.0
// Programs run as another user than the owner of the files, where the kernel has no Landlock
// (gVisor) or an incomplete Landlock. This keeps the programs from changing files. The runner and
// its work for the node keep the owner, user 1000, in group 1000; programs are user 1001 in this
// group. So a program may change only files that the group may change, and the runner opens only
// certain files to the group. The rule depends on no mount and no descriptor. So the rule also
// holds in gVisor, where each process can open the descriptors of another (docs/adr/0072).
#pragma once

#include <sys/types.h>

#include "runner/writable.h"

namespace cloister::runner {

// The runner's first step, while root and able to change its user. False on failure; then no
// program may run.
bool splitUsers();
// In its place where programs run as the owner. Both end all of root's rights.
bool becomeOwner();
// Call before either: no capability can be regained. False on failure.
bool dropBounds();
// Whether splitUsers() was called.
bool usersAreSplit();

// In a program's process, for good. Returns errno.
int becomeProgramUser();

// Files made during its lifetime belong to the programs' user: programs can open the files again by
// their names in /proc.
class AsProgramUser {
 public:
  AsProgramUser();
  AsProgramUser(const AsProgramUser&) = delete;
  AsProgramUser& operator=(const AsProgramUser&) = delete;
  ~AsProgramUser();
};

// The mode of a file or directory sent by the node with `mode`: programs can read as much as its
// owner, and change nothing. Unchanged unless users are split.
mode_t modeOfBrought(mode_t mode);

// Lets programs change the existing file, or the directory with its content. Leaves out files with
// further names (link(2)).
void openToPrograms(const WritablePlace& place);

}  // namespace cloister::runner

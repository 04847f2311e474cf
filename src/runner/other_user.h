// SPDX-License-Identifier: Apache-2.0
// Programs as another user than the owner of the files: how they are kept from changing files where
// the kernel has no Landlock (gVisor), or one that cannot do all of it. The runner and what it does
// for the node go on as the owner, user 1000, in group 1000; programs are user 1001 in that group.
// So what a program may change is what its group may: nothing but what the runner opens to it. No
// mount and no descriptor matters for that, which is why it holds in gVisor, where each process can
// open what another has open (docs/adr/0072).
#pragma once

#include <sys/types.h>

#include "runner/writable.h"

namespace cloister::runner {

// The runner's first act, while it is root and may change its user. False where it may not; then
// nothing may run.
bool splitUsers();
// In its place where programs run as the owner. Both end all of root's rights.
bool becomeOwner();
// Before either: no right can be had again. False where it may not.
bool dropBounds();
// Whether splitUsers() was called.
bool usersAreSplit();

// In a program's process, for good. Returns errno.
int becomeProgramUser();

// What is made meanwhile is the programs': they can open it anew by its name in /proc.
class AsProgramUser {
 public:
  AsProgramUser();
  AsProgramUser(const AsProgramUser&) = delete;
  AsProgramUser& operator=(const AsProgramUser&) = delete;
  ~AsProgramUser();
};

// The mode of a file or directory that the node brings with `mode`: programs can read what its
// owner can, and change nothing. As it is where users are not split.
mode_t modeOfBrought(mode_t mode);

// Lets programs change what is there: the file, or the directory with all that it has in it. What
// has another name elsewhere (link(2)) is left as it is.
void openToPrograms(const WritablePlace& place);

}  // namespace cloister::runner

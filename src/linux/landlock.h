// SPDX-License-Identifier: Apache-2.0
// Landlock (landlock(7)): an access-control layer that a process puts on itself and its children,
// on top of mounts and permissions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::linux {

// The kernel's Landlock ABI; 0 without Landlock, or if turned off.
int landlockAbi();

// Operations that a rule permits beneath a path. All other operations are refused.
enum class LandlockAccess : uint8_t {
  kReadExecute,  // read files and directories, execute
  kReadFile,     // read the file
  kWriteDevice,  // write the file
  kScratch,      // everything but device nodes and device ioctls
  kTerminal,     // read, write and control the devices of a devpts
  kSockets,      // make Unix sockets, connect to and remove sockets
  kControl,      // read, write and control the device
};
std::string_view landlockAccessName(LandlockAccess access);

struct LandlockRule {
  std::string path;
  LandlockAccess access = LandlockAccess::kReadExecute;
};

// Applies the rules to this process for good: landlock_create_ruleset(2), landlock_add_rule(2),
// landlock_restrict_self(2). From ABI 6 on also forbids abstract Unix sockets and signals to
// processes outside. Needs no_new_privs. With ABI 0 does nothing.
Result<> restrictWithLandlock(int abi, const std::vector<LandlockRule>& rules);

}  // namespace cloister::linux

// SPDX-License-Identifier: Apache-2.0
// ZygotePlan: the data that an interpreter needs to become a zygote, as bytes in a sealed file.
// After the execution of the interpreter no part of the node's memory is left.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "confine/confine.h"

namespace cloister::runtime {

// The descriptors of a zygote, beside 0, 1 and 2.
inline constexpr int kZygoteControl = 3;
inline constexpr int kZygoteRunner = 4;  // the runner's program
inline constexpr int kZygotePlan = 5;

struct ZygotePlan {
  struct File {
    std::string name;
    std::string content;
  };

  std::vector<std::string> argv;  // of the interpreter, as in a sandbox
  std::vector<std::string> env;
  std::vector<File> files;  // in its /workspace, which its sandboxes do not see
};

// The plan, with the confinement of its sandboxes but for the runner's program. `root`: that of
// its spawner's, in place of the confinement's.
std::string encodeZygotePlan(const ZygotePlan& plan, const Confinement& confinement,
                             const std::vector<MountStep>& root);

struct ZygoteOrders {
  ZygotePlan plan;
  Confinement confinement;
};
Result<ZygoteOrders> decodeZygotePlan(std::string_view bytes);
// Reads the plan from a descriptor, whose offset stays as before.
Result<ZygoteOrders> readZygotePlan(int fd);

}  // namespace cloister::runtime

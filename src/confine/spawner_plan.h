// SPDX-License-Identifier: Apache-2.0
// The plan that a spawner receives once, at its start: the parts that all of its sandboxes have in
// common. The node writes the plan, and cloister-spawner reads the plan (plan_codec.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "confine/confine.h"
#include "confine/mount_plan.h"
#include "confine/spawn_loop.h"

namespace cloister::runtime {

struct SpawnerPlan {
  std::vector<MountStep> root;
  Confinement confinement;
  IdRange ids;            // of all sandboxes, and of zygotes
  bool rootless = false;  // make a user namespace first, and stay within
  bool own_ids = false;   // the user namespace has `ids` besides the caller's own
  Fd program;             // cloister-spawner
};

// The descriptors of a spawner. confine() later fills 0 to 4, which are /dev/null until then.
inline constexpr int kSpawnerControl = 5;
inline constexpr int kSpawnerRunner = 6;  // the runner's program
inline constexpr int kSpawnerPlan = 7;

// Encodes all but the programs, and `rootless` and `own_ids`, which are already done by then.
std::string encodeSpawnerPlan(const SpawnerPlan& plan);
Result<SpawnerPlan> decodeSpawnerPlan(std::string_view bytes);

}  // namespace cloister::runtime

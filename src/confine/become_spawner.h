// SPDX-License-Identifier: Apache-2.0
// The body of cloister-spawner, which Spawner::start() executes in new namespaces with the
// descriptors of spawner_plan.h. One thread.
#pragma once

namespace cloister::runtime {

// Builds the root, says on the control socket that it stands, and serves requests until the node
// has closed that; in the processes that it makes it becomes what was asked for. Never returns.
[[noreturn]] void becomeSpawner();

}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
// The body of cloister-spawner. Spawner::start() executes the program in new namespaces with the
// descriptors of spawner_plan.h. One thread.
#pragma once

namespace cloister::runtime {

// Builds the root, reports on the control socket when the root is ready, and serves requests until
// the node closes the socket. Each process made for a request becomes the requested program. Never
// returns.
[[noreturn]] void becomeSpawner();

}  // namespace cloister::runtime

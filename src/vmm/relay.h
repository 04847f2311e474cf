// SPDX-License-Identifier: Apache-2.0
// The way between the node's socket and the guest's connection.
#pragma once

namespace cloister::vmm {

// Carries both ways until the node has hung up, or the guest has ended and the node has all of what
// it said before. Called once.
void relay(int node, int guest);

}  // namespace cloister::vmm

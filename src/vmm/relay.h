// SPDX-License-Identifier: Apache-2.0
// Carries bytes between the node's socket and the guest's connection.
#pragma once

namespace cloister::vmm {

// Forwards both ways until the node has closed its end, or the guest has ended and the node has
// received all its data. Call once.
void relay(int node, int guest);

}  // namespace cloister::vmm

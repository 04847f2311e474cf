// SPDX-License-Identifier: Apache-2.0
// Keeping a machine (docs/adr/0060): the node's order, its answer, and the file of the memory.
#pragma once

#include "vmm/api.h"

namespace cloister::vmm {

// Receives the node's order from `orders` (wire/driver.h); false at the end, or for an invalid
// order.
bool takeOrder(int orders);
// Reports success, or with a `fault` the failure and its reason.
void answerOrder(int orders, const Fault* fault);

// Frees the pages of the file at `path` that are all zero: Firecracker writes the machine's whole
// memory, used or not.
void dropEmptyPages(const char* path);

}  // namespace cloister::vmm

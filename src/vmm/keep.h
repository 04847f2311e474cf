// SPDX-License-Identifier: Apache-2.0
// Keeping a machine (docs/adr/0060): the node's order, its answer, and the file of the memory.
#pragma once

#include "vmm/api.h"

namespace cloister::vmm {

// Takes the node's order from `orders` (wire/driver.h); false at its end, or where it is none.
bool takeOrder(int orders);
// Says that the machine was kept; with a `fault` that it was not, and why.
void answerOrder(int orders, const Fault* fault);

// Gives back the memory of those pages of the file at `path` that hold nothing but zeros:
// Firecracker writes all that a machine has, used or not.
void dropEmptyPages(const char* path);

}  // namespace cloister::vmm

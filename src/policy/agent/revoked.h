// SPDX-License-Identifier: Apache-2.0
// Whether an agent's rules have become stricter than the walls that a sandbox was made with. Pure;
// thread-safe.
#pragma once

#include "model/walls.h"

namespace cloister::policy {

// True where a sandbox with the walls `before` lets its programs do what one with `after` does not.
// It compares rules by their text, so that it may be true for rules that say the same in other
// words; never false where something was taken away.
bool takesAway(const model::Walls& before, const model::Walls& after);

}  // namespace cloister::policy

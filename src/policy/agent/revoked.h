// SPDX-License-Identifier: Apache-2.0
// Whether an agent's rules have become stricter than the confinement rules of an existing sandbox.
// Pure; thread-safe.
#pragma once

#include "model/walls.h"

namespace cloister::policy {

// Whether programs may do something under the confinement rules `before` but not under `after`.
// Compares rules by their text, so equivalent rules in other words may give true; never false after
// a restriction.
bool takesAway(const model::Walls& before, const model::Walls& after);

}  // namespace cloister::policy

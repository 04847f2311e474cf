// SPDX-License-Identifier: Apache-2.0
// Whether links that a credential made are still good.
#pragma once

#include <string>

#include "base/result.h"
#include "store/store.h"

namespace cloister::orchestrator {

// kDenied if the key is expired or revoked, or if the person's sign-in through the provider
// (`uis_…`) has ended. Unlike a link, a program of a person goes on after signing out.
Result<> linkHolds(store::Store& store, const std::string& made_with);

}  // namespace cloister::orchestrator

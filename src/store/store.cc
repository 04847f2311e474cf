// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

namespace cloister::store {

Scope Scope::of(const model::Principal& principal) {
  Scope scope;
  if (!principal.isAdmin()) scope.tenant_ = principal.tenant;
  return scope;
}

Scope Scope::allTenants() {
  return {};
}

std::string checkpointText(const Checkpoint& checkpoint) {
  return "cloister-audit-checkpoint v1\n" + std::to_string(checkpoint.seq) + "\n" +
         checkpoint.hash + "\n" + std::to_string(checkpoint.at) + "\n";
}

}  // namespace cloister::store

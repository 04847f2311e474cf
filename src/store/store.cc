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

}  // namespace cloister::store

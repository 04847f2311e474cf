// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/link_standing.h"

#include "base/clock.h"

namespace cloister::orchestrator {

Result<> linkHolds(store::Store& store, const std::string& made_with) {
  if (!made_with.starts_with("uis_")) return store::stillHolds(store, made_with);
  const auto session = TRY(store.uiSession(made_with));
  if (session && base::wallMicros() < session->ends_at) return {};
  return fail(Code::kDenied, "the sign-in has ended");
}

}  // namespace cloister::orchestrator

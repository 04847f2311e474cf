// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include "base/clock.h"

namespace cloister::store {

Result<> stillHolds(Store& store, const model::Principal& principal) {
  const auto key = store.key(Scope::of(principal), principal.key_id);
  if (!key && key.error().code == Code::kNotFound) return {};
  if (!key) return std::unexpected(key.error());
  const bool over = key->expires_at != 0 && base::wallMicros() >= key->expires_at;
  if (key->revoked_at == 0 && !over) return {};
  return fail(Code::kDenied, "the credential is expired or revoked");
}

}  // namespace cloister::store

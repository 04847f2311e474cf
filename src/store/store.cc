// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include "base/clock.h"

namespace cloister::store {

namespace {

enum class Standing : uint8_t { kGood, kExpired, kRevoked };

bool isOver(const KeyRecord& key) {
  return key.expires_at != 0 && base::wallMicros() >= key.expires_at;
}

// What an expired key was rotated to, directly or through others, is as good as it was.
Result<Standing> standingOfSuccessors(Store& store, const KeyRecord& expired) {
  const std::vector<KeyRecord> keys = TRY(store.keys(Scope::ofTenant(expired.principal.tenant)));
  std::vector<std::string> rotated = {expired.id};
  bool revoked = false;
  for (size_t at = 0; at < rotated.size(); at++) {
    for (const KeyRecord& key : keys) {
      if (key.replaces != rotated[at]) continue;
      if (key.revoked_at != 0) {
        revoked = true;
      } else if (!isOver(key)) {
        return Standing::kGood;
      } else {
        rotated.push_back(key.id);
      }
    }
  }
  return revoked ? Standing::kRevoked : Standing::kExpired;
}

Result<Standing> standingOf(Store& store, const std::string& credential) {
  const auto key = store.key(Scope::allTenants(), credential);
  if (!key && key.error().code == Code::kNotFound) return Standing::kGood;
  if (!key) return std::unexpected(key.error());
  if (key->revoked_at != 0) return Standing::kRevoked;
  return isOver(*key) ? standingOfSuccessors(store, *key) : Standing::kGood;
}

}  // namespace

Result<> stillHolds(Store& store, const std::string& credential) {
  if (TRY(standingOf(store, credential)) == Standing::kGood) return {};
  return fail(Code::kDenied, "the credential is expired or revoked");
}

Result<> stillHolds(Store& store, const model::Principal& principal) {
  return stillHolds(store, principal.key_id);
}

Result<bool> isRevoked(Store& store, const std::string& credential) {
  return TRY(standingOf(store, credential)) == Standing::kRevoked;
}

}  // namespace cloister::store

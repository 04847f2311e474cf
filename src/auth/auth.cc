// SPDX-License-Identifier: Apache-2.0
#include "auth/auth.h"

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"

namespace cloister::auth {
namespace {

constexpr std::string_view kPrefix = "clo_";
constexpr size_t kSecretBytes = 32;
constexpr size_t kMaxSecret = 256;
constexpr size_t kMaxCached = 1024;
constexpr int64_t kCachedMicros = 1'000'000;

// The same words whatever is wrong, so that a caller learns nothing about keys that exist.
std::unexpected<Error> refused() {
  return fail(Code::kUnauthorized, "the API key is missing, unknown, expired or revoked");
}

bool isOver(int64_t expires_at, int64_t now) {
  return expires_at != 0 && now >= expires_at;
}

}  // namespace

store::KeyRecord recordFor(std::string_view secret, model::Principal principal, std::string name) {
  store::KeyRecord record;
  record.id = base::newId("key");
  record.sha256 = base::sha256Hex(secret);
  record.name = std::move(name);
  record.principal = std::move(principal);
  record.principal.key_id = record.id;
  record.created_at = base::wallMicros();
  return record;
}

NewKey makeKey(model::Principal principal, std::string name, int64_t expires_at) {
  NewKey key;
  key.secret = std::string(kPrefix) + base::randomHex(kSecretBytes);
  key.record = recordFor(key.secret, std::move(principal), std::move(name));
  key.record.expires_at = expires_at;
  return key;
}

Authenticator::Authenticator(store::Store& store) : store_(store) {}

Result<model::Principal> Authenticator::authenticate(std::string_view secret) {
  if (secret.empty() || secret.size() > kMaxSecret) return refused();
  const int64_t now = base::wallMicros();
  const std::string hash = base::sha256Hex(secret);
  if (const auto cached = cache_.find(hash); cached != cache_.end()) {
    const Entry& entry = cached->second;
    // A clock that was set back must not make an old answer last.
    const bool fresh = now < entry.until && now >= entry.until - kCachedMicros;
    if (fresh && !isOver(entry.expires_at, now)) return entry.principal;
    cache_.erase(cached);
  }
  const std::optional<store::KeyRecord> record = TRY(store_.keyByHash(hash));
  if (!record || record->sha256 != hash || record->revoked_at != 0 ||
      isOver(record->expires_at, now) || record->principal.tenant.empty()) {
    return refused();
  }
  model::Principal principal = record->principal;
  principal.key_id = record->id;
  if (cache_.size() >= kMaxCached) cache_.clear();
  cache_[hash] = {principal, now + kCachedMicros, record->expires_at};
  return principal;
}

void Authenticator::forget() {
  cache_.clear();
}

}  // namespace cloister::auth

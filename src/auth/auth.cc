// SPDX-License-Identifier: Apache-2.0
#include "auth/auth.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "store/rows/keys.h"

namespace cloister::auth {
namespace {

struct FormatRow {
  std::string_view name;
  std::string_view prefix;
};
constexpr std::array<FormatRow, 2> kFormats = {{{"cloister", "clo_"}, {"e2b", "e2b_"}}};
constexpr size_t kSecretBytes = 32;
constexpr size_t kMaxSecret = 256;
constexpr size_t kMaxCached = 1024;
constexpr int64_t kCachedMicros = 1'000'000;

bool isOver(int64_t expires_at, int64_t now) {
  return expires_at != 0 && now >= expires_at;
}

// A client on a Unix socket counts as loopback.
bool mayComeFrom(const std::vector<base::Network>& networks, std::optional<base::Address> peer) {
  if (networks.empty()) return true;
  const base::Address address = peer.value_or(base::Address::loopback());
  return std::ranges::any_of(
      networks, [&](const base::Network& network) { return network.contains(address); });
}

// JWS Compact Serialization (RFC 7515 §3.1); no key has a dot.
bool looksLikeToken(std::string_view credential) {
  return std::ranges::count(credential, '.') == 2;
}

// Whether makeKey() could have made the credential: 256 random bits, impossible to guess.
bool looksLikeKey(std::string_view credential) {
  return std::ranges::any_of(kFormats, [&](const FormatRow& format) {
    return credential.starts_with(format.prefix) &&
           credential.size() == format.prefix.size() + 2 * kSecretBytes;
  });
}

Result<Identity> identityOf(Result<model::Principal> of_key) {
  return Identity{.principal = TRY(std::move(of_key))};
}

std::unexpected<Error> tooMany(int seconds) {
  Error error{Code::kQuota, "too many wrong credentials came from this address", ""};
  error.retry_after_seconds = seconds;
  return std::unexpected(std::move(error));
}

}  // namespace

std::unexpected<Error> refused() {
  return fail(Code::kUnauthorized, "the credential is missing, unknown, expired or revoked");
}

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

std::optional<KeyFormat> keyFormatFromName(std::string_view name) {
  const auto* const at = std::ranges::find(kFormats, name, &FormatRow::name);
  if (at == kFormats.end()) return std::nullopt;
  return static_cast<KeyFormat>(at - kFormats.begin());
}

NewKey makeKey(model::Principal principal, std::string name, int64_t expires_at, KeyFormat format) {
  NewKey key;
  key.secret =
      std::string(kFormats.at(static_cast<size_t>(format)).prefix) + base::randomHex(kSecretBytes);
  key.record = recordFor(key.secret, std::move(principal), std::move(name));
  key.record.expires_at = expires_at;
  return key;
}

Authenticator::Authenticator(store::Store& store, AuthOptions options)
    : store_(store),
      options_(std::move(options)),
      attempts_(options_.failures_per_minute),
      sessions_(store, options_.web) {}

Task<Result<Identity>> Authenticator::identify(std::string_view credential,
                                               std::optional<base::Address> peer) {
  if (credential.empty()) co_return refused();  // no guess
  const bool token = options_.tokens != nullptr && looksLikeToken(credential);
  const base::Monotonic now = base::monotonicNow();
  const int wait = peer ? attempts_.waitSeconds(*peer, now) : 0;
  if (wait > 0 && !token && !looksLikeKey(credential)) co_return tooMany(wait);
  Result<Identity> who = refused();
  if (token) {
    who = co_await options_.tokens->verify(std::string(credential));
  } else {
    who = identityOf(authenticate(credential, peer));
  }
  if (who && who->principal.isOwn()) who = refused();
  if (who || who.error().code != Code::kUnauthorized || !peer) co_return who;
  attempts_.failed(*peer, now);
  if (wait > 0) co_return tooMany(wait);
  co_return who;
}

Result<> Authenticator::mayTry(std::optional<base::Address> peer) {
  const int wait = peer ? attempts_.waitSeconds(*peer, base::monotonicNow()) : 0;
  if (wait > 0) return tooMany(wait);
  return {};
}

void Authenticator::noteWrong(std::optional<base::Address> peer) {
  if (peer) attempts_.failed(*peer, base::monotonicNow());
}

Result<Identity> Authenticator::identify(const ClientCertificate& certificate) const {
  Identity who{.principal = TRY(options_.certificates.identify(certificate, base::wallMicros())),
               .ends_at = certificate.not_after};
  if (who.principal.isOwn()) return refused();
  return who;
}

Result<Identity> Authenticator::identifyCookie(std::string_view cookie,
                                               std::optional<base::Address> peer, bool attended) {
  const store::UiSession session = TRY(sessions_.find(cookie, attended));
  Identity who{.principal = session.principal, .session = session.id};
  if (session.issuer.empty()) {
    const std::string key = who.principal.key_id;
    who.principal = TRY(holderOf(key, peer));
    who.principal.key_id = key;
  } else {
    who.ends_at = session.ends_at;
  }
  if (who.principal.isOwn()) return refused();
  return who;
}

Result<model::Principal> Authenticator::authenticate(std::string_view secret,
                                                     std::optional<base::Address> peer) {
  if (secret.empty() || secret.size() > kMaxSecret) return refused();
  const Entry* entry = TRY(find(base::sha256Hex(secret), base::wallMicros()));
  if (!mayComeFrom(entry->networks, peer)) return refused();
  return entry->principal;
}

Result<model::Principal> Authenticator::holderOf(const std::string& key_id,
                                                 std::optional<base::Address> peer) const {
  const auto record = store_.key(store::Scope::allTenants(), key_id);
  if (!record || !store::stillHolds(store_, key_id)) return refused();
  if (!mayComeFrom(record->networks, peer)) return refused();
  return record->principal;
}

Result<const Authenticator::Entry*> Authenticator::find(const std::string& hash, int64_t now) {
  if (const auto cached = cache_.find(hash); cached != cache_.end()) {
    const Entry& entry = cached->second;
    // After the clock was set back, an old answer must not last longer.
    const bool fresh = now < entry.until && now >= entry.until - kCachedMicros;
    if (fresh && !isOver(entry.expires_at, now)) return &entry;
    cache_.erase(cached);
  }
  const std::optional<store::KeyRecord> record = TRY(store_.keyByHash(hash));
  // Lookup compares digests of the offered secret, so the index order reveals nothing.
  if (!record || !base::equalSecret(record->sha256, hash) || record->revoked_at != 0 ||
      isOver(record->expires_at, now) || record->principal.tenant.empty()) {
    return refused();
  }
  noteUse(*record, now);
  model::Principal principal = record->principal;
  principal.key_id = record->id;
  if (cache_.size() >= kMaxCached) cache_.clear();
  Entry& entry = cache_[hash];
  entry = {principal, now + kCachedMicros, record->expires_at, record->networks};
  return &entry;
}

// Roughly: a write for each use would cost more than the use.
void Authenticator::noteUse(const store::KeyRecord& record, int64_t now) {
  // No key was used before it was made.
  const int64_t at = std::max(now - now % store::kUseGrain, record.created_at);
  if (at <= record.last_used_at) return;
  store_.write(store::writing(store::noteKeyUse, record.id, at), [](const Result<void>&) {});
}

void Authenticator::forget() {
  cache_.clear();
  changed_();
}

bool Authenticator::stands(const Credential& credential) const {
  if (credential.id.empty()) return true;
  if (isOver(credential.ends_at, base::wallMicros())) return false;
  // A link that a sign-in through the provider made has no session, but a credential that is one.
  const bool sign_in = credential.session.empty() && credential.id.starts_with("uis_");
  const std::string& session = sign_in ? credential.id : credential.session;
  if (!session.empty() && !sessions_.stands(session)) return false;
  return store::stillHolds(store_, credential.id).has_value();
}

}  // namespace cloister::auth

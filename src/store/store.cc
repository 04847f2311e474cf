// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include "base/clock.h"
#include "store/sql/engine.h"

namespace cloister::store {

Store::Store(std::unique_ptr<Engine> engine) : Reads(*engine), engine_(std::move(engine)) {}
Store::Store(Store&&) noexcept = default;
Store::~Store() = default;

const std::string& Store::publishedLoss() const {
  return engine_->publishedLoss();
}

void Store::submit(std::unique_ptr<QueuedWrite> write) {
  engine_->submit(std::move(write));
}

void Store::setGate(WriteGate& gate) {
  engine_->setGate(gate);
}

void Store::pass(std::unique_ptr<QueuedWrite> write) {
  engine_->pass(std::move(write));
}

bool Store::readsAtOnce() const {
  return engine_->readsAtOnce();
}

Result<> Store::post(ReadFor purpose, std::function<void()> read) {
  return engine_->pool().add(purpose, std::move(read));
}

void Store::stopReads() {
  engine_->pool().stop();
}

Result<> Store::health() {
  return engine_->health();
}

namespace {

enum class Standing : uint8_t { kGood, kExpired, kRevoked };

bool isOver(const KeyRecord& key, int64_t now) {
  return key.expires_at != 0 && now >= key.expires_at;
}

// The standing of an expired key is the standing of its successors, direct or through others.
Result<Standing> standingOfSuccessors(Reads& ledger, const KeyRecord& expired, int64_t now) {
  const auto keys = TRY(ledger.successors(expired.id, now, kMostSuccessors));
  bool revoked = keys.size() >= kMostSuccessors;  // further successors are unknown
  for (const KeyRecord& key : keys) {
    if (key.revoked_at == 0 && !isOver(key, now)) return Standing::kGood;
    revoked = revoked || key.revoked_at != 0;
  }
  return revoked ? Standing::kRevoked : Standing::kExpired;
}

Result<Standing> standingOf(Reads& ledger, const std::string& credential) {
  if (!credential.starts_with("key_")) return Standing::kGood;
  const auto key = ledger.key(Scope::allTenants(), credential);
  if (!key && key.error().code == Code::kNotFound) return Standing::kGood;
  if (!key) return std::unexpected(key.error());
  if (key->revoked_at != 0) return Standing::kRevoked;
  const int64_t now = base::wallMicros();
  return isOver(*key, now) ? standingOfSuccessors(ledger, *key, now) : Standing::kGood;
}

}  // namespace

Result<> stillHolds(Reads& ledger, const std::string& credential) {
  if (TRY(standingOf(ledger, credential)) == Standing::kGood) return {};
  return fail(Code::kDenied, "the credential is expired or revoked");
}

Result<> stillHolds(Reads& ledger, const model::Principal& principal) {
  return stillHolds(ledger, principal.key_id);
}

Result<bool> isRevoked(Reads& ledger, const std::string& credential) {
  return TRY(standingOf(ledger, credential)) == Standing::kRevoked;
}

}  // namespace cloister::store

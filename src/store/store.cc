// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include "base/clock.h"
#include "store/agent_store.h"
#include "store/memory_store.h"
#include "store/quota_store.h"
#include "store/secret_store.h"
#include "store/sql/engine.h"

namespace cloister::store {

struct Store::Parts {
  explicit Parts(Engine& engine)
      : agents(engine), memory(engine), quotas(engine), secrets(engine), escalations(engine) {}

  AgentStore agents;
  MemoryStore memory;
  QuotaStore quotas;
  SecretStore secrets;
  Escalations escalations;
};

Store::Store(std::unique_ptr<Engine> engine)
    : engine_(std::move(engine)), parts_(std::make_unique<Parts>(*engine_)) {}
Store::Store(Store&&) noexcept = default;
Store::~Store() = default;

void Store::submit(std::unique_ptr<QueuedWrite> write) {
  engine_->submit(std::move(write));
}

void Store::setGate(WriteGate& gate) {
  engine_->setGate(gate);
}

void Store::pass(std::unique_ptr<QueuedWrite> write) {
  engine_->pass(std::move(write));
}

AgentStore& Store::agents() {
  return parts_->agents;
}

MemoryStore& Store::memory() {
  return parts_->memory;
}

QuotaStore& Store::quotas() {
  return parts_->quotas;
}

SecretStore& Store::secrets() {
  return parts_->secrets;
}

Escalations& Store::escalations() {
  return parts_->escalations;
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
Result<Standing> standingOfSuccessors(Store& store, const KeyRecord& expired, int64_t now) {
  const auto keys = TRY(store.successors(expired.id, now, kMostSuccessors));
  bool revoked = keys.size() >= kMostSuccessors;  // further successors are unknown
  for (const KeyRecord& key : keys) {
    if (key.revoked_at == 0 && !isOver(key, now)) return Standing::kGood;
    revoked = revoked || key.revoked_at != 0;
  }
  return revoked ? Standing::kRevoked : Standing::kExpired;
}

Result<Standing> standingOf(Store& store, const std::string& credential) {
  if (!credential.starts_with("key_")) return Standing::kGood;
  const auto key = store.key(Scope::allTenants(), credential);
  if (!key && key.error().code == Code::kNotFound) return Standing::kGood;
  if (!key) return std::unexpected(key.error());
  if (key->revoked_at != 0) return Standing::kRevoked;
  const int64_t now = base::wallMicros();
  return isOver(*key, now) ? standingOfSuccessors(store, *key, now) : Standing::kGood;
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

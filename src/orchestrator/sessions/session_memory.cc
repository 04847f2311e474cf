// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/session_memory.h"

#include <utility>

#include "base/clock.h"
#include "orchestrator/core/ledger.h"
#include "orchestrator/core/reach.h"
#include "store/rows/memory.h"

namespace cloister::orchestrator {
namespace {

constexpr char kField[] = "url.key";
constexpr char kUsingMemory[] = "using a session's memory";

model::AuditEvent eventOf(const char* action, const std::string& session,
                          const model::Principal& by) {
  return {.action = action, .subject = session, .principal = by, .details = {}};
}

}  // namespace

Result<> SessionMemory::mayRead(const model::Principal& principal, const std::string& session) {
  const model::Session found = TRY(sessions_.get(principal, session));
  return mustBeOfTenant(principal, found.principal, kUsingMemory);
}

Result<> SessionMemory::mayChange(const model::Principal& principal, const std::string& session) {
  const model::Session found = TRY(sessions_.get(principal, session));
  return mustUse(principal, found.principal, kUsingMemory);
}

Result<std::vector<model::MemoryItem>> SessionMemory::list(const model::Principal& principal,
                                                           const store::MemoryQuery& query) {
  TRY(mayRead(principal, query.session));
  return store_.memory().list(store::Scope::of(principal), query);
}

Result<model::MemoryValue> SessionMemory::get(const model::Principal& principal,
                                              const std::string& session, const std::string& key) {
  TRY(mayRead(principal, session));
  TRY(model::checkMemoryKey(key, kField));
  return store_.memory().get(store::Scope::of(principal), session, key);
}

Task<Result<model::MemoryItem>> SessionMemory::set(model::Principal principal, std::string session,
                                                   std::string key, std::string json) {
  CO_TRY(mayChange(principal, session));
  CO_TRY(model::checkMemoryKey(key, kField));
  CO_TRY(model::checkMemoryValue(json, key, "value", bounds_));
  const model::AuditEvent event = eventOf("memory.set", session, principal);
  const store::NewMemory value{.session = std::move(session),
                               .key = std::move(key),
                               .json = std::move(json),
                               .at = base::wallMicros()};
  co_return co_await Ledger(store_).write(store::putMemory, store::Scope::of(principal), value,
                                          bounds_, event);
}

Task<Result<void>> SessionMemory::remove(model::Principal principal, std::string session,
                                         std::string key) {
  CO_TRY(mayChange(principal, session));
  CO_TRY(model::checkMemoryKey(key, kField));
  const model::AuditEvent event = eventOf("memory.deleted", session, principal);
  co_return co_await Ledger(store_).write(store::removeMemory, store::Scope::of(principal),
                                          {std::move(session), std::move(key)}, event);
}

}  // namespace cloister::orchestrator

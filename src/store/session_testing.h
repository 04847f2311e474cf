// SPDX-License-Identifier: Apache-2.0
// For tests of the ledger: sessions and their memory.
#pragma once

#include <string>
#include <vector>

#include "store/memory_store.h"
#include "store/rows/memory.h"
#include "store/rows/sessions.h"
#include "store/suite/fixture.h"

namespace cloister::store {

using model::SessionStatus;

inline NewSession newSession(const std::string& tenant = "acme",
                             const std::string& agent = "agent") {
  NewSession request;
  model::Session& s = request.session;
  s.id = base::newId("ses");
  s.principal = principal(tenant, agent);
  s.language = "python";
  s.env = {{"A", "1"}};
  s.cwd = "/tmp";
  s.metadata = {{"task", "t"}};
  s.limits.pids = 7;
  s.capabilities = {"file_read", "network"};
  s.ttl = std::chrono::minutes(1);
  s.idle_ttl = std::chrono::milliseconds(1500);
  s.created_at = 1'700'000'000'000'000;
  s.last_used_at = s.created_at + 1;
  s.expires_at = s.created_at + 2;
  request.request_json = R"json({"language":"python"})json";
  return request;
}

inline model::AuditEvent sessionEvent(const std::string& action, const model::Session& about) {
  return {.action = action, .subject = about.id, .principal = about.principal, .details = {}};
}

inline Result<Created> create(Store& store, const NewSession& request) {
  return commit(store, createSession, request, sessionEvent("session.created", request.session));
}

inline Result<> update(Store& store, const model::Session& session) {
  return commit(store, updateSession, session, sessionEvent("session.updated", session));
}

inline Result<> update(Store& store, model::Session session, SessionStatus status) {
  session.status = status;
  return update(store, session);
}

namespace memory {

inline std::string running(Store& store, const std::string& tenant = "acme") {
  const auto created = create(store, newSession(tenant));
  EXPECT_TRUE(created) << created.error().message;
  EXPECT_TRUE(update(store, created->session, SessionStatus::kRunning));
  return created->session.id;
}

inline Result<> end(Store& store, const std::string& id, int64_t at) {
  model::Session session = TRY(store.session(Scope::allTenants(), id));
  session.ended_at = at;
  return update(store, session, SessionStatus::kEnded);
}

inline model::AuditEvent event(const std::string& action, const std::string& session,
                               const std::string& tenant) {
  return {.action = action, .subject = session, .principal = principal(tenant), .details = {}};
}

inline Result<model::MemoryItem> put(Store& store, const std::string& session,
                                     const std::string& key, const std::string& json,
                                     const model::MemoryBounds& bounds = {},
                                     const std::string& tenant = "acme", int64_t at = 1) {
  return commit(store, putMemory, Scope::of(principal(tenant)),
                {.session = session, .key = key, .json = json, .at = at}, bounds,
                event("memory.set", session, tenant));
}

inline Result<> remove(Store& store, const std::string& session, const std::string& key,
                       const std::string& tenant = "acme") {
  return commit(store, removeMemory, Scope::of(principal(tenant)), {session, key},
                event("memory.deleted", session, tenant));
}

// Its text, or the error's.
inline std::string get(Store& store, const std::string& session, const std::string& key,
                       const std::string& tenant = "acme") {
  const auto value = store.memory().get(Scope::of(principal(tenant)), session, key);
  return value ? value->json : value.error().message;
}

inline std::vector<std::string> keys(Store& store, const MemoryQuery& query) {
  std::vector<std::string> keys;
  const auto items = store.memory().list(Scope::of(principal("acme")), query);
  EXPECT_TRUE(items) << items.error().message;
  for (const auto& item : *items)
    keys.push_back(item.key);
  return keys;
}

}  // namespace memory

}  // namespace cloister::store

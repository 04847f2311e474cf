// SPDX-License-Identifier: Apache-2.0
// The memory of sessions: who may reach it, and its bounds. The values are in the ledger, so they
// outlive a restart of the service, a move of the session and its end; they go with its record.
// Snapshots and forks do not have them, and programs in the sandbox do not reach them.
//
// Whoever sees the session may read its memory, and whoever may change the session's files may
// change it; an administrator of another tenant may neither.
// All methods run on the service's executor.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/principal.h"
#include "model/session_memory.h"
#include "orchestrator/sessions/sessions.h"
#include "store/memory_store.h"

namespace cloister::orchestrator {

class SessionMemory {
 public:
  // `sessions` and `store` outlive it, and it outlives what it has begun.
  SessionMemory(Sessions& sessions, store::Store& store, model::MemoryBounds bounds)
      : sessions_(sessions), store_(store), bounds_(bounds) {}

  // Without the values, in the order of keys. kNotFound for a session that the caller does not see;
  // kDenied for an administrator of another tenant, and to change it for who only sees it.
  Result<std::vector<model::MemoryItem>> list(const model::Principal& principal,
                                              const store::MemoryQuery& query);
  // Errors as list(), kNotFound for a key that is not there, kInvalid for what is none.
  Result<model::MemoryValue> get(const model::Principal& principal, const std::string& session,
                                 const std::string& key);
  // Keeps `json` (one text of JSON, byte for byte) as `key`; returns once that is durable. Errors
  // as get(), kInvalid and kTooLarge for the value, kQuota beyond the bounds, kConflict once the
  // session has ended.
  Task<Result<model::MemoryItem>> set(model::Principal principal, std::string session,
                                      std::string key, std::string json);
  // Also after the session's end. Errors as get().
  Task<Result<void>> remove(model::Principal principal, std::string session, std::string key);

 private:
  [[nodiscard]] Result<> mayRead(const model::Principal& principal, const std::string& session);
  [[nodiscard]] Result<> mayChange(const model::Principal& principal, const std::string& session);

  Sessions& sessions_;
  store::Store& store_;
  model::MemoryBounds bounds_;
};

}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
// The memory of sessions: access and bounds. The values are in the ledger, so values outlive a
// restart of the service, a move of the session and its end, and are deleted with its record.
// Snapshots and forks do not contain the values, and programs in the sandbox cannot reach the
// values.
//
// Principals that see the session may read its memory; principals that may change the session's
// files may change its memory. An administrator of another tenant may do neither. All methods run
// on the service's executor.
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
  // `sessions` and `store` outlive the SessionMemory, which outlives its tasks.
  SessionMemory(Sessions& sessions, store::Store& store, model::MemoryBounds bounds)
      : sessions_(sessions), store_(store), bounds_(bounds) {}

  // Items without values, in the order of keys. kNotFound for a session invisible to the caller;
  // kDenied for an administrator of another tenant, and for changes by a viewer.
  Result<std::vector<model::MemoryItem>> list(const model::Principal& principal,
                                              const store::MemoryQuery& query);
  // Errors as list(), kNotFound for an unknown key, kInvalid for an invalid key.
  Result<model::MemoryValue> get(const model::Principal& principal, const std::string& session,
                                 const std::string& key);
  // Stores `json` (a JSON text, byte for byte) as `key`; returns once the value is durable. Errors
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

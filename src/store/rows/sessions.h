// SPDX-License-Identifier: Apache-2.0
// Sessions in the ledger: creation with idempotency, the state machine, retention, reading. See
// store.h for each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

Result<std::optional<model::Session>> earlierSession(Database& db, const NewSession& request,
                                                     const std::string& request_sha256);
// As acceptExecution(). A session begins kCreating or kBlocked.
Result<Created> createSession(Transaction tx, const NewSession& request,
                              const model::AuditEvent& event);
// As updateExecution(). An ended session stays ended. A renewal is an update from kRunning to
// kRunning.
Result<void> updateSession(Transaction tx, const model::Session& session,
                           const model::AuditEvent& event);
// Deletes at most `limit` sessions with an end up to `ended_by`; returns their number.
Result<uint64_t> dropSessions(Database& db, int64_t ended_by, int limit);

Result<model::Session> getSession(Database& db, const Scope& scope, const std::string& id);
// As Store::sessionNamed().
Result<std::string> sessionNamed(Database& db, const model::Principal& by, const std::string& name);
Result<std::vector<model::Session>> listSessions(Database& db, const Scope& scope,
                                                 const SessionQuery& query);
Result<std::vector<model::Session>> unfinishedSessionRows(Database& db);

}  // namespace cloister::store

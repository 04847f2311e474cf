// SPDX-License-Identifier: Apache-2.0
// The reads of the Store, on a read-only connection. store.h documents each read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/sql/db.h"
#include "store/store.h"

namespace cloister::store {

Result<model::Execution> getExecution(Database& db, const Scope& scope, const std::string& id);
// kConflict if the record does not match the audit log.
Result<Recorded> recordedExecution(Database& db, const Scope& scope, const std::string& id);
Result<std::vector<model::Execution>> listExecutions(Database& db, const Scope& scope,
                                                     const ListQuery& query);
Result<std::vector<Pending>> unfinishedExecutions(Database& db);
// kConflict as recordedExecution(), for the request too.
Result<PendingSession> pendingSessionRow(Database& db, const Scope& scope, const std::string& id);
Result<std::vector<model::AuditEntry>> readAudit(Database& db, const Scope& scope, uint64_t after,
                                                 uint32_t limit);
Result<AuditPage> searchAudit(Database& db, const Scope& scope, const AuditSearch& search);
// The statement's remaining rows; its columns are the log's columns.
Result<std::vector<model::AuditEntry>> readAuditRows(Database& db, Statement& row);

}  // namespace cloister::store

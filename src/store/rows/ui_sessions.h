// SPDX-License-Identifier: Apache-2.0
// Sessions of the web interface in the ledger. store.h documents the reads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/audit_entry.h"
#include "store/records/ui_session.h"
#include "store/scope.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// The member of `details` in the audit entry of a new session: rightsOf().
inline constexpr char kSessionRights[] = "rights";
// What the session lets its holder do, and the digest of its cookie: the verification of the log
// compares these with the row.
base::json::object rightsOf(const UiSession& session);

// Stores a new session, and removes ended ones. kQuota if there are `most` of all people.
Result<void> putUiSession(Transaction tx, const UiSession& session, const UiSessionRoom& room,
                          const model::AuditEvent& event);
// Removes a session; without an audit row if there is none.
Result<void> removeUiSession(Transaction tx, const std::string& id, const model::AuditEvent& event);
// Notes a use of a session. No audit row: the requests of a session have audit rows.
Result<void> noteUiSessionUse(Transaction tx, const std::string& id, int64_t at);
// Notes a refused sign-in.
Result<void> noteUiRefusal(Transaction tx, const model::AuditEvent& event);

Result<std::optional<UiSession>> findUiSession(Database& db, const std::string& sha256);
Result<std::optional<UiSession>> getUiSession(Database& db, const std::string& id);
Result<std::vector<UiSession>> listUiSessions(Database& db, const Scope& scope, uint32_t limit);

}  // namespace cloister::store

// SPDX-License-Identifier: Apache-2.0
// Versions of the policy document, and requests for trying a new version. store.h documents the
// reads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "store/sql/db.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

// A version and its audit row, whose subject and details the ledger completes; gives its number.
// kConflict where another than `expected` is in force.
Result<int64_t> putPolicy(Transaction tx, const NewPolicy& made, const model::AuditEvent& event);
Result<std::optional<PolicyVersion>> getPolicy(Database& db, int64_t version);
Result<std::vector<PolicyVersion>> listPolicies(Database& db, const PolicyQuery& query);
Result<RecordedRequest> getRequest(Database& db, const Scope& scope, const std::string& execution);
Result<std::vector<RecordedRequest>> listRequests(Database& db, const Scope& scope, uint32_t limit);

}  // namespace cloister::store

// SPDX-License-Identifier: Apache-2.0
// Quotas in the ledger. quota_store.h documents the reads.
#pragma once

#include <vector>

#include "store/quota_store.h"
#include "store/sql/db.h"
#include "store/write.h"

namespace cloister::store {

// Replaces the present record; a record without values removes the record. kQuota beyond `most` of
// the tenant's agents.
Result<void> putQuota(Transaction tx, const model::QuotaRecord& record, uint64_t most,
                      const model::AuditEvent& event);
Result<std::vector<model::QuotaRecord>> readQuotas(Database& db);
Result<std::vector<CpuUse>> readCpuSince(Database& db, int64_t since);

}  // namespace cloister::store

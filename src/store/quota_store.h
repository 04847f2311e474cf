// SPDX-License-Identifier: Apache-2.0
// The ledger's part for quotas and their use. A change and its audit row are one transaction.
// Threads, `done` and durability as in store.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/audit_entry.h"
#include "model/quota.h"
#include "store/store.h"

namespace cloister::store {

// "quota:TENANT" or "quota:TENANT/AGENT": the subject of audit rows. A / or % of the tenant's name
// is written as in URLs.
std::string quotaSubject(const model::QuotaScope& scope);

// Processor time of an agent's executions and sessions in a tenant ("": without an agent).
struct CpuUse {
  model::QuotaScope of;
  uint64_t cpu_ms = 0;
};

class QuotaStore {
 public:
  explicit QuotaStore(Engine& engine) : engine_(engine) {}

  // All there are, of every tenant.
  Result<std::vector<model::QuotaRecord>> all();
  // Use of executions and sessions that ended at `since` (wall-clock microseconds) or later; a
  // session counts only the time beyond its executions.
  Result<std::vector<CpuUse>> cpuSince(int64_t since);

 private:
  Engine& engine_;
};

}  // namespace cloister::store

// SPDX-License-Identifier: Apache-2.0
// Types for reading the audit log in the ledger (Store): checkpoints, a search, and a search's page
// of results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/audit_entry.h"
#include "model/checkpoint.h"
#include "store/scope.h"

namespace cloister::store {

using model::Checkpoint;
using model::checkpointText;

// The number of an entry for readers of `scope`. Readers within a tenant get the seq, which reveals
// nothing of other tenants; readers of every tenant get the position.
inline uint64_t numberFor(const Scope& scope, const model::AuditEntry& entry) {
  return scope.tenant() ? entry.seq : entry.position;
}

// Filter for entries of the audit log; "" is any.
struct AuditSearch {
  uint64_t after = 0;                     // only entries whose number (numberFor()) is greater
  uint64_t before = uint64_t{INT64_MAX};  // only entries whose number is less
  bool newest_first = false;
  std::string action = {};  // an action, or a prefix: "escalation.*"
  std::string by = {};      // the user or the key's id
  std::string agent = {};
  std::string subject = {};
  std::string execution = {};  // its id is the subject, or in the details
  int64_t since = 0;           // wall-clock microseconds, as `until`
  int64_t until = INT64_MAX;   // exclusive
  uint32_t limit = 100;        // 1..1000

  // Bound on the entries read by a search; the next page continues from there.
  static constexpr uint64_t kLookedAt = 50'000;
};

struct AuditPage {
  std::vector<model::AuditEntry> entries;
  std::optional<uint64_t> next;  // `after`, or `before`, of the next page; none after the last page
};

}  // namespace cloister::store

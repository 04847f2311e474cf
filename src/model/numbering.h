// SPDX-License-Identifier: Apache-2.0
// The numbers of the audit log's entries. A tenant's entries are numbered 1, 2, 3 … apart from all
// other tenants' (docs/adr/0088). A ledger of an earlier version has entries whose number is their
// position in the whole log; the entry `ledger.renumbered` ends those, for good. From it on, a
// tenant's numbers go on above its last. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "model/audit_entry.h"

namespace cloister::model {

inline constexpr std::string_view kRenumbered = "ledger.renumbered";

// What the ledger records where its first `through` entries have their position as their number.
AuditEvent renumbered(uint64_t through);

// Holds the number of every entry of a whole log to what it must be. No part of the log says in
// advance which numbers it begins with; so both are possible until an entry has only one of them.
class Numbering {
 public:
  // For each entry in order, its position counted by the caller from 1. What is wrong with its
  // number or, of `ledger.renumbered`, with its place; "" if nothing is.
  std::string check(uint64_t position, const AuditEntry& entry);

  // Whether entries have their position as number and nothing ended that: a log of an earlier
  // version, or one to which nothing was added since the upgrade.
  [[nodiscard]] bool old() const { return positions_ && !own_; }

 private:
  std::string renumber(uint64_t position, const AuditEntry& entry);

  std::map<std::string, uint64_t> last_;  // number, by tenant
  bool positions_ = true;                 // every entry's number may be its position
  bool own_ = true;                       // every entry's number may be its tenant's next
};

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
// The numbers of the audit log's entries. A tenant's entries are numbered 1, 2, 3 … apart from all
// other tenants' (docs/adr/0088). A ledger of an earlier version has entries whose number is their
// position in the whole log. The entry `ledger.renumbered` ends such numbers for good. After this
// entry a tenant's numbers continue above the tenant's last number. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "model/audit_entry.h"

namespace cloister::model {

inline constexpr std::string_view kRenumbered = "ledger.renumbered";

// The ledger's record that its first `through` entries have their position as number.
AuditEvent renumbered(uint64_t through);

// Checks the number of each entry of a whole log. The log does not say in advance with which
// numbers it begins; both kinds are possible until an entry fits only one of them.
class Numbering {
 public:
  // Call for each entry in order; the caller counts the position from 1. Returns the defect of the
  // number or, for `ledger.renumbered`, of its place; "" if valid.
  std::string check(uint64_t position, const AuditEntry& entry);

  // Whether entries are still numbered by position: a log of an earlier version, or without new
  // entries since the upgrade.
  [[nodiscard]] bool old() const { return positions_ && !own_; }

 private:
  std::string renumber(uint64_t position, const AuditEntry& entry);

  std::map<std::string, uint64_t> last_;  // number, by tenant
  bool positions_ = true;                 // every entry's number may be its position
  bool own_ = true;                       // every entry's number may be its tenant's next
};

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
// AuditEntry: one row of the append-only log, and its canonical form, which the hash chain covers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/principal.h"

namespace cloister::model {

// The recorded event; the ledger assigns `position`, `seq`, `at`, `prev` and `hash` at the commit.
struct AuditEvent {
  std::string action;   // "execution.accepted", "execution.finished", "key.created", …
  std::string subject;  // id of the event's object
  Principal principal;
  base::json::object details;
};

// Text of persons and agents is not in the immutable entry: there the member of `details` is
// {"sealed": sealOf(member)}. The sealed value is stored beside the log until redacted. Afterwards
// the chain is still valid, and the digest does not help to guess the value.
struct SealedMember {
  std::string name;
  std::string salt;  // 32 hex digits, random
  base::json::value value;
};

struct AuditEntry {
  // 1, 2, 3 … in the whole log. For readers of all tenants alone, and not part of the hashed form:
  // the gaps between a tenant's positions tell how much other tenants do.
  uint64_t position = 0;
  uint64_t seq = 0;  // 1, 2, 3 … within its tenant; before model/numbering.h's change, the position
  int64_t at = 0;    // wall-clock microseconds
  AuditEvent event;
  std::string prev;                       // hex SHA-256 of the entry before; 64 zeros for the first
  std::string hash;                       // hex SHA-256 of canonicalForm(*this)
  std::vector<SealedMember> sealed = {};  // sealed members of its details, by name; without
                                          // redacted ones
};

// Whether a member of such an entry's details is sealed.
bool isSealable(std::string_view action, std::string_view member);
// Hex SHA-256 over the salt and the value's canonical JSON; docs/AUDIT.md.
std::string sealOf(const SealedMember& member);
// The digest, where a member's value is {"sealed": digest}; "" for any other.
std::string sealIn(const base::json::value& value);
// The original details, except redacted values.
base::json::object shownDetails(const AuditEntry& entry);

// The exact bytes of the hash: a line of JSON with the members seq, at, action, subject, tenant,
// app, agent, user, key, details, prev in this order, `details` by canonicalJson().
std::string canonicalForm(const AuditEntry& entry);

// JSON without spaces, members of each object sorted by byte value, strings and integers as in RFC
// 8785. A number with a fraction becomes a string: programs differ in printing fractions.
std::string canonicalJson(const base::json::value& value);

}  // namespace cloister::model

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

// What is recorded; `position`, `seq`, `at`, `prev` and `hash` are given by the ledger when it
// commits.
struct AuditEvent {
  std::string action;   // "execution.accepted", "execution.finished", "key.created", …
  std::string subject;  // the id it is about
  Principal principal;
  base::json::object details;
};

// Text of persons and agents is not in the entry itself, which cannot be changed: there, the member
// of `details` is {"sealed": sealOf(it)}. What was sealed is kept beside the log until somebody
// redacts it; then the chain is as whole as before, and nobody can guess it by its digest.
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
  std::vector<SealedMember> sealed = {};  // of its details, by name; what was redacted is gone
};

// Whether a member of such an entry's details is sealed.
bool isSealable(std::string_view action, std::string_view member);
// Hex SHA-256 over the salt and the value's canonical JSON; docs/AUDIT.md.
std::string sealOf(const SealedMember& member);
// The digest, where a member's value is {"sealed": digest}; "" for any other.
std::string sealIn(const base::json::value& value);
// The details as they were recorded, but for what was redacted.
base::json::object shownDetails(const AuditEntry& entry);

// The exact bytes that are hashed: one line of JSON with the members seq, at, action, subject,
// tenant, app, agent, user, key, details, prev in this order, `details` by canonicalJson().
std::string canonicalForm(const AuditEntry& entry);

// JSON without spaces, the members of each object sorted by byte value, strings and integers as
// RFC 8785 writes them. A number with a fraction becomes a string: two programs print it in two
// ways.
std::string canonicalJson(const base::json::value& value);

}  // namespace cloister::model

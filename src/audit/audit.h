// SPDX-License-Identifier: Apache-2.0
// The audit log from outside: reading, exporting and proving the log. The ledger writes each row in
// the transaction of the recorded change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::audit {

struct Report {
  bool ok = true;
  uint64_t entries = 0;
  uint64_t checkpoints = 0;        // number of checked signatures
  uint64_t first_bad = 0;          // position, 0 if none
  std::string problem;             // "entry 17: its bytes do not match its hash", …
  std::string head;                // hash of the last entry
  std::vector<std::string> notes;  // facts that the log cannot prove, with the reasons
};

// Verifies the whole chain: gaps, hashes, links, numbers, and the signed head; the checkpoints of
// `checkpoint_file` ("": not checked); the anchor `anchor_file` ("": not checked) with its recorded
// losses; recoveries made by the ledger; and records without evidence in the log. Each checkpoint
// must be on the chain: a checkpoint past its end shows a cut tail or an older copy. Stops at the
// first defect. Damage found by the database itself is a Report as well. Takes some 10 µs an entry:
// call on a separate thread; writes may continue meanwhile.
Report verify(store::Store& store, const base::VerifyKey& key, const std::string& checkpoint_file,
              const std::string& anchor_file);

// A JSON line for an entry, without the newline: its canonical form, then `hash`, for readers of
// all tenants `position`, and `sealed`, if any, as the last members (docs/AUDIT.md).
std::string exportLine(const model::AuditEntry& entry, const store::Scope& scope);

}  // namespace cloister::audit

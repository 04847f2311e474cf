// SPDX-License-Identifier: Apache-2.0
// The audit log from outside: reading, exporting and proving it. Rows are written by the ledger, in
// the transaction of what they record.
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
  uint64_t checkpoints = 0;        // signatures that were checked
  uint64_t first_bad = 0;          // position, 0 if none
  std::string problem;             // "entry 17: its bytes do not match its hash", …
  std::string head;                // hash of the last entry
  std::vector<std::string> notes;  // what the log cannot prove of itself, and why
};

// Walks the whole chain: gaps, hashes, links, numbers, the signed head, the checkpoints of
// `checkpoint_file`
// ("": none is looked at; each must lie on the chain, and one past its end tells of a cut tail or
// of an older copy), the anchor `anchor_file` ("": none is looked at) in the same way and with what
// it has of losses, recoveries the ledger had to make, and the records the log does not bear out.
// Stops at the first thing wrong. Damage the database itself finds is a Report as well. Takes some
// 10 µs an entry: call it on a thread of its own; writes may go on meanwhile.
Report verify(store::Store& store, const base::VerifyKey& key, const std::string& checkpoint_file,
              const std::string& anchor_file);

// One JSON line an entry, without the newline: its canonical form, then `hash`, for readers of all
// tenants `position`, and, where it has some, `sealed` as the last members (docs/AUDIT.md).
std::string exportLine(const model::AuditEntry& entry, const store::Scope& scope);

}  // namespace cloister::audit

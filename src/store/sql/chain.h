// SPDX-License-Identifier: Apache-2.0
// The audit chain in the ledger's writer: the head stays in memory, and each new entry is hashed
// over the previous entry (docs/AUDIT.md). Used by the writer thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "model/audit_entry.h"
#include "store/records/change_line.h"
#include "store/sql/db.h"
#include "store/store.h"

namespace cloister::store {

class Chain {
 public:
  struct Head {
    uint64_t seq = 0;  // position in the whole log, as in a checkpoint
    int64_t at = 0;
    std::string hash = std::string(64, '0');
    bool old_numbers = false;  // its number is its position: Chain::renumber() is due
  };

  // Without a key the head is not signed, and there are no checkpoints.
  explicit Chain(std::shared_ptr<const base::SigningKey> key);

  // Loads the chain of `db`. If the last entry is not the entry of the signed head, a crash cannot
  // be the cause: the Result's text reports the mismatch, and the chain continues from its last
  // entry.
  Result<std::string> load(Database& db);

  // Adds an entry within the open transaction of `db`; returns the entry's position.
  Result<uint64_t> append(Database& db, const model::AuditEvent& event);
  // If the last entry comes from a version that numbered all tenants together, adds the entry that
  // ends those numbers (model/numbering.h). append() calls renumber() first, too.
  Result<void> renumber(Database& db);
  // Writes the signed head of the entries since the last commit; none without new entries.
  Result<std::optional<Checkpoint>> seal(Database& db);

  [[nodiscard]] const Head& head() const { return head_; }
  // After a commit, or after a rollback to `head`. Committed entries are logged.
  void committed();
  void restore(Head head);

 private:
  [[nodiscard]] std::string compareWithHead(const std::optional<Checkpoint>& sealed) const;
  Result<uint64_t> add(Database& db, const model::AuditEvent& event);

  std::shared_ptr<const base::SigningKey> key_;
  std::string key_id_;
  Head head_;
  uint64_t sealed_seq_ = 0;
  std::vector<ChangeLine> to_log_;  // for entries not committed yet
};

// A row of the columns seq, at, action, subject, tenant, app, agent, user, key_id, details, prev,
// hash, ifnull(number, seq) of `audit`. An error says what is wrong with its details.
Result<model::AuditEntry> readEntry(const Statement& row);
// The signed head, if any.
Result<std::optional<Checkpoint>> readHead(Database& db);

}  // namespace cloister::store

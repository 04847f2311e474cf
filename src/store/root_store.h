// SPDX-License-Identifier: Apache-2.0
// The ledger's part for the signed roots of the audit log (docs/AUDIT.md, "Proofs for one entry").
// Threads, `done` and durability as in store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "model/inclusion_proof.h"
#include "store/secret_store.h"
#include "store/store.h"

namespace cloister::store {

// A period's record, with what only the service knows.
struct StoredRoot {
  model::AuditRoot root;
  uint64_t first = 1;  // position of the period's first entry
  uint64_t last = 0;   // of its last entry; first - 1 for a period without entries
  std::string secret;  // 64 hex digits
};

struct EntryHash {
  uint64_t position = 0;
  std::string hash;
};

class RootStore {
 public:
  explicit RootStore(Engine& engine) : engine_(engine) {}

  Result<std::optional<StoredRoot>> newest();
  // Records with a number above `after`, oldest first, at most `limit` (1..1000).
  Result<std::vector<StoredRoot>> list(uint64_t after, uint32_t limit);
  // The record whose period has the entry; nullopt: none yet, or none any more.
  Result<std::optional<StoredRoot>> covering(uint64_t position);
  // The entries behind the position `after`, in order, at most `limit` (1..10000).
  Result<std::vector<EntryHash>> hashes(uint64_t after, uint32_t limit);

 private:
  Engine& engine_;
};

inline RootStore partOf(Reads& ledger, std::type_identity<RootStore> /*which*/) {
  return RootStore(ledger.secrets().engine());
}

inline RootStore roots(Reads& ledger) {
  return RootStore(ledger.secrets().engine());
}

}  // namespace cloister::store

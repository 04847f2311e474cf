// SPDX-License-Identifier: Apache-2.0
// Makes the signed roots of the audit log, one for each period, and proofs for single entries
// (docs/AUDIT.md, "Proofs for one entry"). Works on a thread of its own: no write of the ledger and
// no request waits for a root. The times of the records are multiples of the interval, and say
// nothing of the work.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "audit/proof_tree.h"
#include "base/crypto.h"
#include "base/result.h"
#include "model/inclusion_proof.h"
#include "store/root_store.h"
#include "store/sql/mutex.h"
#include "store/store.h"

namespace cloister::audit {

struct RootSettings {
  std::chrono::seconds every{60};
  uint64_t keep = 600'000;  // records
};

// The most entries of a period; the surplus goes to the next period.
uint64_t mostEntries(const RootSettings& settings);
// The end of the period that a record made at `now` covers; the period before ended at `last`, 0:
// there is none. Times in microseconds. A clock that was set back does not stop the records.
int64_t endOfPeriod(int64_t now, int64_t last, std::chrono::seconds every);

class RootKeeper {
 public:
  using Done = std::function<void(Result<model::InclusionProof>)>;

  // `store` and `key` outlive the keeper. Without start() there are no roots, and proofs of those
  // that there are.
  RootKeeper(store::Store& store, const base::SigningKey& key, RootSettings settings);
  // Ends the work within some milliseconds; waiting proofs are refused.
  ~RootKeeper();
  RootKeeper(const RootKeeper&) = delete;
  RootKeeper& operator=(const RootKeeper&) = delete;

  void start();
  // Makes the record of the period that ends at `ends`, and waits. For start()'s thread, and tests
  // without start(). An error leaves everything to the next period.
  Result<> make(int64_t ends);
  // The proof for the entry, whose right to be read the caller has checked. From any thread; `done`
  // is called on the keeper's thread, or at once with kQuota if too many wait. kConflict: the entry
  // is in no root yet, or in none any more; the message says which.
  void prove(model::AuditEntry entry, Done done);

 private:
  struct Waiting {
    model::AuditEntry entry;
    Done done;
  };
  struct Kept {
    uint64_t number = 0;
    std::shared_ptr<const ProofTree> tree;
  };

  void loop();
  bool take(Waiting& next);
  void makeIfDue();
  Result<std::vector<store::EntryHash>> entriesOf(uint64_t first, uint64_t last);
  [[nodiscard]] uint64_t firstOf(const std::optional<store::StoredRoot>& before,
                                 uint64_t head) const;
  Result<std::shared_ptr<const ProofTree>> treeOf(const store::StoredRoot& root);
  Result<model::InclusionProof> proofOf(model::AuditEntry entry);
  [[nodiscard]] Error notCovered(uint64_t position);

  store::Store& store_;
  store::RootStore roots_;
  const base::SigningKey& key_;
  const RootSettings settings_;
  std::list<Kept> kept_;  // of the last proofs, the newest first
  int64_t due_ = 0;       // wall-clock microseconds, of the keeper's thread
  std::chrono::steady_clock::time_point tried_{};
  std::atomic<bool> stop_ = false;
  store::Mutex mutex_;
  store::Condition wake_;
  std::list<Waiting> waiting_ CLOISTER_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace cloister::audit

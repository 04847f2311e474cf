// SPDX-License-Identifier: Apache-2.0
// A write on its way through the ledger: made by the caller, applied by the writer thread inside a
// transaction, finished once its fate is known.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "store/sql/chain.h"
#include "store/sql/db.h"
#include "store/store.h"

namespace cloister::store {

// What a write works on.
struct Transaction {
  Database& db;
  Chain& chain;
};

class Write {
 public:
  virtual ~Write() = default;
  // May be called again when the transaction it was in failed. An error takes back this write only.
  virtual Result<> apply(Transaction transaction) = 0;
  // Once, on a thread of the ledger (or of the caller, when the queue is full).
  virtual void finish(Result<> outcome) = 0;
  // The execution or session it is about, "" if none.
  std::string subject;
  // About what it holds in memory, for the bound of the queue.
  size_t bytes = 0;
};

template <class T>
class WriteOf final : public Write {
 public:
  using Work = std::function<Result<T>(Transaction)>;
  WriteOf(Work work, Done<T> done) : work_(std::move(work)), done_(std::move(done)) {}

  Result<> apply(Transaction transaction) override {
    result_ = work_(transaction);
    if (!result_) return std::unexpected(result_.error());
    return {};
  }
  void finish(Result<> outcome) override {
    if (!done_) return;
    if (outcome) return done_(std::move(result_));
    done_(std::unexpected(std::move(outcome).error()));
  }

 private:
  Work work_;
  Done<T> done_;
  Result<T> result_ = fail(Code::kInternal, "ledger: not applied");
};

// A write whose fate is known.
struct Finished {
  std::unique_ptr<Write> write;
  Result<> outcome;
};

}  // namespace cloister::store

// SPDX-License-Identifier: Apache-2.0
// A write of the ledger is a function over a transaction, declared beside the rows that it changes
// (store/rows): that declaration is the only one. `writing()` makes a value of it, which knows what
// the queue has to know and which the ledger applies later:
//
//   store.write(writing(updateExecution, execution, event), done);
//   co_await ledger.write(store::updateExecution, execution, event);  // orchestrator/core/ledger.h
//
// A new write is a new function there. It returns an error before it has changed anything that the
// transaction would keep, or its changes are taken back: see Writer::applyOne.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace cloister::store {

class Database;
class Chain;

// What a write works on.
struct Transaction {
  Database& db;
  Chain& chain;
};

// Called once, with what the write came to; see store.h about threads.
template <class T>
using Done = std::function<void(Result<T>)>;

// Which function a write calls, to compare.
using AnyRow = void (*)();
template <class T, class... Parameters>
AnyRow rowOf(Result<T> (*row)(Transaction, Parameters...)) {
  return reinterpret_cast<AnyRow>(row);
}

// What the queue knows of a write.
struct About {
  AnyRow row = nullptr;
  std::string subject = {};  // the execution or session that it changes, "" if none
  size_t bytes = 0;          // about what it holds in memory, for the bound of the queue
};

// A value that a write takes may tell of the write, and complete itself on the caller's thread:
// overloads of this lie beside the values' structs.
template <class Value>
void tell(About& /*about*/, Value& /*value*/) {}

template <class T>
struct Write {
  About about;
  // May be called again when the transaction that it was in failed. An error takes back this write
  // only.
  std::function<Result<T>(Transaction)> apply;
};

// Calls `row` with the transaction and `values`.
template <class T, class... Parameters>
Write<T> writing(Result<T> (*row)(Transaction, Parameters...),
                 std::type_identity_t<std::remove_cvref_t<Parameters>>... values) {
  About about{.row = rowOf(row)};
  (tell(about, values), ...);
  return {std::move(about), [row, kept = std::tuple<std::remove_cvref_t<Parameters>...>(
                                      std::move(values)...)](Transaction transaction) {
            return std::apply([&](const auto&... each) { return row(transaction, each...); }, kept);
          }};
}

// A write on its way through the ledger: made by the caller, applied by the writer thread inside a
// transaction, finished once its fate is known.
class QueuedWrite {
 public:
  explicit QueuedWrite(About known) : about(std::move(known)) {}
  virtual ~QueuedWrite() = default;
  virtual Result<> apply(Transaction transaction) = 0;
  // Once, on a thread of the ledger (or of the caller, when the queue is full).
  virtual void finish(Result<> outcome) = 0;

  const About about;
};

template <class T>
class QueuedWriteOf final : public QueuedWrite {
 public:
  QueuedWriteOf(Write<T> write, Done<T> done)
      : QueuedWrite(std::move(write.about)),
        apply_(std::move(write.apply)),
        done_(std::move(done)) {}

  Result<> apply(Transaction transaction) override {
    result_ = apply_(transaction);
    if (!result_) return std::unexpected(result_.error());
    return {};
  }
  void finish(Result<> outcome) override {
    if (!done_) return;
    if (outcome) return done_(std::move(result_));
    done_(std::unexpected(std::move(outcome).error()));
  }

 private:
  std::function<Result<T>(Transaction)> apply_;
  Done<T> done_;
  Result<T> result_ = fail(Code::kInternal, "ledger: not applied");
};

// What stands before the ledger's queue in tests: a disk that is full or slow.
class WriteGate {
 public:
  virtual ~WriteGate() = default;
  // What it gives back goes on. What it keeps it finishes itself, or hands to Store::pass() later.
  // From any thread.
  virtual std::unique_ptr<QueuedWrite> admit(std::unique_ptr<QueuedWrite> write) = 0;
  // An error that takes the place of the ledger's own health; none: there is no outage.
  virtual Result<> outage() = 0;
};

}  // namespace cloister::store

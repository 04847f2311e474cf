// SPDX-License-Identifier: Apache-2.0
// A write of the ledger is a function over a transaction, declared only once, beside its rows
// (store/rows). `writing()` makes a value of a call, with the facts for the queue; the ledger
// applies the value later:
//
//   store.write(writing(updateExecution, execution, event), done);
//   co_await ledger.write(store::updateExecution, execution, event);  // orchestrator/core/ledger.h
//
// For a new write add a function there. An error must precede all changes that the transaction
// would keep; otherwise the changes are rolled back: see Writer::applyOne.
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

// A write's access to the ledger.
struct Transaction {
  Database& db;
  Chain& chain;
};

// Called once with the write's result; see store.h about threads.
template <class T>
using Done = std::function<void(Result<T>)>;

// Identifies a write's function, for comparison.
using AnyRow = void (*)();
template <class T, class... Parameters>
AnyRow rowOf(Result<T> (*row)(Transaction, Parameters...)) {
  return reinterpret_cast<AnyRow>(row);
}

// The queue's facts about a write.
struct About {
  AnyRow row = nullptr;
  std::string subject = {};  // the changed execution or session, "" if none
  size_t bytes = 0;          // approximate memory, for the bound of the queue
};

// An argument of a write may describe the write, and complete itself on the caller's thread:
// overloads of tell() lie beside the arguments' structs. An overload takes a reference to
// a value that is not const: this one wins otherwise, and the write has no subject.
template <class Value>
void tell(About& /*about*/, Value& /*value*/) {}

template <class T>
struct Write {
  About about;
  // May be called again after its transaction failed. An error rolls back only this write.
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

// Stands before the ledger's queue in tests: simulates a full or slow disk.
class WriteGate {
 public:
  virtual ~WriteGate() = default;
  // A returned write continues to the queue. A kept write is finished by the gate, or passed to
  // Store::pass() later. From any thread.
  virtual std::unique_ptr<QueuedWrite> admit(std::unique_ptr<QueuedWrite> write) = 0;
  // An error that replaces the ledger's own health; none without an outage.
  virtual Result<> outage() = 0;
};

}  // namespace cloister::store

// SPDX-License-Identifier: Apache-2.0
// The store's writes as coroutines: each resumes on its executor once its transaction is durable,
// or has failed.
#pragma once

#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "async/awaiting.h"
#include "store/rows/agents.h"
#include "store/rows/artifacts.h"
#include "store/rows/executions.h"
#include "store/rows/image_bindings.h"
#include "store/rows/retention.h"
#include "store/rows/sealed.h"
#include "store/rows/sessions.h"
#include "store/rows/snapshots.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::orchestrator {

class Ledger {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  explicit Ledger(store::Store& store) : store_(store) {}

  // Does the write `row` with `values`.
  //   co_await ledger.write(store::updateExecution, execution, event);
  template <class T, class... Parameters>
  Task<Result<T>> write(Result<T> (*row)(store::Transaction, Parameters...),
                        std::type_identity_t<std::remove_cvref_t<Parameters>>... values) {
    return committed(store::writing(row, std::move(values)...));
  }

 private:
  template <class T>
  Task<Result<T>> committed(store::Write<T> write) {
    return async::committed<T>(
        [&store = store_, write = std::move(write)](store::Done<T> done) mutable {
          store.write(std::move(write), std::move(done));
        });
  }

  store::Store& store_;
};

}  // namespace cloister::orchestrator

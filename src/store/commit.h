// SPDX-License-Identifier: Apache-2.0
// Writes of the ledger that the caller's thread waits for: at start-up, in tools and in tests. Not
// on a thread of the ledger.
#pragma once

#include <future>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "store/write.h"

namespace cloister::store {

// Does the write `row` with `values` (write.h), and waits for the result.
//   TRY(commit(store, putKey, key, event));
// `Ledger`: Store, or the Engine below it.
template <class Ledger, class T, class... Parameters>
Result<T> commit(Ledger& ledger, Result<T> (*row)(Transaction, Parameters...),
                 std::type_identity_t<std::remove_cvref_t<Parameters>>... values) {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  ledger.write(writing(row, std::move(values)...),
               [promise](Result<T> result) { promise->set_value(std::move(result)); });
  return promise->get_future().get();
}

}  // namespace cloister::store

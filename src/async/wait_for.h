// SPDX-License-Identifier: Apache-2.0
// waitFor: a thread of another pool waits for a coroutine of the io thread. For code that has to
// block, such as a reader of a pipe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>

#include "async/spawn.h"
#include "base/result.h"

namespace cloister::async {

// Never on the thread of `executor`. kUnavailable after a stop; the coroutine then goes on alone.
// `start` makes the coroutine, on the executor's thread.
template <class T>
Result<T> waitFor(const boost::asio::any_io_executor& executor, std::stop_token stop,
                  std::function<boost::asio::awaitable<Result<T>>()> start) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::optional<Result<T>> result;
  };
  const auto shared = std::make_shared<Shared>();
  boost::asio::post(executor, [executor, shared, start = std::move(start)] {
    spawn(executor,
          [](std::shared_ptr<Shared> to, std::function<boost::asio::awaitable<Result<T>>()> make)
              -> boost::asio::awaitable<void> {
            auto result = co_await make();
            const std::lock_guard lock(to->mutex);
            to->result = std::move(result);
            to->ended.notify_all();
          }(shared, start));
  });
  std::unique_lock lock(shared->mutex);
  if (!shared->ended.wait(lock, std::move(stop), [&] { return shared->result.has_value(); })) {
    return fail(Code::kUnavailable, "waiting for the service: it stops");
  }
  return *std::move(shared->result);
}

}  // namespace cloister::async

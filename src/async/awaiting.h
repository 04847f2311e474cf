// SPDX-License-Identifier: Apache-2.0
// Coroutines of the io thread that wait for another thread: the ledger's writer, or the background
// thread. The coroutines resume on the io thread.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/result.h"

namespace cloister::async {

// Calls `start` with a callback that any thread may call, once. Returns the value given to the
// callback. The executor's context does not end in between.
template <class Value>
boost::asio::awaitable<Value> callback(std::function<void(std::function<void(Value)>)> start) {
  namespace asio = boost::asio;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Value)>(
      [&](auto handler) {
        struct Waiting {
          decltype(handler) resume;
          asio::executor_work_guard<asio::any_io_executor> work;
        };
        auto waiting =
            std::make_shared<Waiting>(Waiting{std::move(handler), asio::make_work_guard(executor)});
        start([executor, waiting = std::move(waiting)](Value value) mutable {
          asio::post(executor, [waiting = std::move(waiting), value = std::move(value)]() mutable {
            const auto resumed = std::exchange(waiting, nullptr);
            resumed->work.reset();
            std::move(resumed->resume)(std::move(value));
          });
        });
      },
      asio::use_awaitable);
}

// Waits for a write of the ledger.
template <class T>
boost::asio::awaitable<Result<T>> committed(
    std::function<void(std::function<void(Result<T>)>)> start) {
  return callback<Result<T>>(std::move(start));
}

// Runs `work` on the background thread. Objects held by `work` are released there before the waiter
// resumes.
template <class T>
boost::asio::awaitable<T> inBackground(boost::asio::thread_pool& pool, std::function<T()> work) {
  return callback<T>([&pool, work = std::move(work)](std::function<void(T)> done) mutable {
    boost::asio::post(pool, [work = std::move(work), done = std::move(done)]() mutable {
      T value = std::exchange(work, nullptr)();
      done(std::move(value));
    });
  });
}

}  // namespace cloister::async

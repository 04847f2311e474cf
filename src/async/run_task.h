// SPDX-License-Identifier: Apache-2.0
// runTask: a coroutine's result, synchronously. For tests and for programs of a single task.
#pragma once

#include <cstdlib>
#include <optional>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "async/spawn.h"

namespace cloister::async {

// Runs the io_context until `task` has ended.
template <class T>
T runTask(boost::asio::io_context& io, boost::asio::awaitable<T> task) {
  std::optional<T> result;
  spawn(io.get_executor(),
        [](boost::asio::awaitable<T> inner, std::optional<T>& out) -> boost::asio::awaitable<void> {
          out.emplace(co_await std::move(inner));
        }(std::move(task), result));
  io.restart();
  while (!result && io.run_one() > 0) {
  }
  if (!result) std::abort();  // no pending operation could still end the task
  return *std::move(result);
}

}  // namespace cloister::async

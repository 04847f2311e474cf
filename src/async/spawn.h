// SPDX-License-Identifier: Apache-2.0
// spawn: starts a coroutine without a waiter. An exception in the coroutine (out of memory, say)
// leaves the io_context's run() and so ends the process: better than a run that silently never
// ends.
#pragma once

#include <exception>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>

namespace cloister::async {

// May run the task up to its first suspension before returning.
inline void spawn(const boost::asio::any_io_executor& executor, boost::asio::awaitable<void> task) {
  boost::asio::co_spawn(executor, std::move(task), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  });
}

}  // namespace cloister::async

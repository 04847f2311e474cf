// SPDX-License-Identifier: Apache-2.0
// together: runs coroutines side by side, a bounded number at once, and waits for all.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/this_coro.hpp>

#include "async/signal.h"
#include "async/spawn.h"

namespace cloister::async {

using Tasks = std::vector<std::function<boost::asio::awaitable<void>()>>;

// On the executor of the caller, whose objects the tasks may use: all tasks end before the return,
// unless the io_context is destroyed.
inline boost::asio::awaitable<void> together(Tasks tasks, size_t most) {
  if (tasks.size() == 1) co_return co_await tasks.front()();
  struct Work {
    Work(const boost::asio::any_io_executor& executor, Tasks all)
        : tasks(std::move(all)), ended(executor) {}
    Tasks tasks;
    size_t next = 0;
    size_t workers = 0;
    Signal ended;
  };
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto work = std::make_shared<Work>(executor, std::move(tasks));
  const size_t workers = std::min(most, work->tasks.size());
  work->workers = workers;
  for (size_t i = 0; i < workers; ++i) {
    spawn(executor, [](std::shared_ptr<Work> of) -> boost::asio::awaitable<void> {
      while (of->next < of->tasks.size())
        co_await of->tasks[of->next++]();
      of->workers--;
      of->ended.notify();
    }(work));
  }
  while (work->workers > 0)
    co_await work->ended.wait();
}

}  // namespace cloister::async

// SPDX-License-Identifier: Apache-2.0
// Signal: a condition variable for coroutines of one executor. Wait in a loop that tests the
// awaited condition; a wake-up means only that something changed.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

namespace cloister::async {

class Signal {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Signal(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() = default;

  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return executor_; }

  // Wakes all coroutines now waiting.
  void notify();

  // Resumes at the next notify(), or at `deadline`. The caller keeps the signal alive.
  boost::asio::awaitable<void> wait(Clock::time_point deadline = Clock::time_point::max());

 private:
  boost::asio::any_io_executor executor_;
  std::vector<boost::asio::steady_timer*> waiting_;
};

}  // namespace cloister::async

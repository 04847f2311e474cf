// SPDX-License-Identifier: Apache-2.0
// Signal: a condition variable for coroutines of one executor. Wait in a loop that tests what is
// waited for; a wake-up says only that something changed.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::runtime {

class Signal {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Signal(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() = default;

  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return executor_; }

  // Wakes every coroutine that waits now.
  void notify() {
    for (boost::asio::steady_timer* timer : waiting_)
      timer->cancel();
  }

  // Resumes at the next notify(), or at `deadline`. The caller keeps the signal alive.
  boost::asio::awaitable<void> wait(Clock::time_point deadline = Clock::time_point::max()) {
    boost::asio::steady_timer timer(executor_, deadline);
    const Place place(waiting_, timer);
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }

 private:
  using Waiting = std::vector<boost::asio::steady_timer*>;

  // Its place among those waiting, given up even when the coroutine is destroyed.
  class Place {
   public:
    Place(Waiting& waiting, boost::asio::steady_timer& timer) : waiting_(waiting), timer_(&timer) {
      waiting_.push_back(timer_);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { waiting_.erase(std::ranges::find(waiting_, timer_)); }

   private:
    Waiting& waiting_;
    boost::asio::steady_timer* timer_;
  };

  boost::asio::any_io_executor executor_;
  Waiting waiting_;
};

}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
#include "async/signal.h"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::async {
namespace {

using Waiting = std::vector<boost::asio::steady_timer*>;

// The coroutine's place among the waiters, removed even when the coroutine is destroyed.
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

}  // namespace

void Signal::notify() {
  for (boost::asio::steady_timer* timer : waiting_)
    timer->cancel();
}

boost::asio::awaitable<void> Signal::wait(Clock::time_point deadline) {
  boost::asio::steady_timer timer(executor_, deadline);
  const Place place(waiting_, timer);
  co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
}

}  // namespace cloister::async

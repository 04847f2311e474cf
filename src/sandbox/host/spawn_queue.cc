// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/spawn_queue.h"

#include <fcntl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::runtime {

namespace asio = boost::asio;

namespace {
constexpr uint64_t kMostAhead = 64;  // requests on their way; the socket holds a few hundred
}  // namespace

SpawnQueue::SpawnQueue(const asio::any_io_executor& executor, std::shared_ptr<Spawner> spawner,
                       base::Millis patience)
    : spawner_(std::move(spawner)),
      patience_(patience),
      socket_(executor, ::fcntl(spawner_->socket(), F_DUPFD_CLOEXEC, 0)),
      turn_changed_(executor) {}

// False once `until` has passed; true may be too early.
Task<bool> SpawnQueue::readable(base::Monotonic until) {
  if (base::monotonicNow() >= until) co_return false;
  asio::steady_timer late(socket_.get_executor(), until);
  // Wakes the waiting coroutine, which checks again: the answer may have come just now.
  late.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) self->socket_.cancel();
  });
  co_await socket_.async_wait(asio::posix::descriptor_base::wait_read,
                              asio::as_tuple(asio::use_awaitable));
  co_return true;
}

Task<Result<>> SpawnQueue::ready() {
  const auto until = base::monotonicNow() + patience_;
  auto said = spawner_->ready();
  while (!said && said.error().code == Code::kUnavailable) {
    if (!co_await readable(until)) co_return spawner_->giveUp();
    said = spawner_->ready();
  }
  co_return said;
}

Task<Result<Fd>> SpawnQueue::spawn(const SpawnRequest& request, std::span<const int> fds) {
  while (next_ - turn_ >= kMostAhead)
    co_await turn_changed_.wait();
  CO_TRY(spawner_->request(request, fds));
  const uint64_t number = next_++;
  while (turn_ != number)
    co_await turn_changed_.wait();
  auto answer = co_await nextAnswer();
  ++turn_;
  turn_changed_.notify();
  co_return answer;
}

Task<Result<Fd>> SpawnQueue::nextAnswer() {
  const auto until = base::monotonicNow() + patience_;
  auto answer = spawner_->answer();
  while (!answer && answer.error().code == Code::kUnavailable) {
    if (!co_await readable(until)) co_return std::unexpected(spawner_->giveUp().error());
    answer = spawner_->answer();
  }
  co_return answer;
}

std::shared_ptr<SpawnQueue> PresentQueue::get() {
  if (!queue_ || queue_->spawner() != root_->spawner()) {
    queue_ = std::make_shared<SpawnQueue>(executor_, root_->spawner(), patience_);
  }
  return queue_;
}

// Every sandbox keeps its spawner (Live::root()); so do the root and the queue.
bool PresentQueue::idle() const {
  const bool queued = queue_ && queue_->spawner() == root_->spawner();
  return root_->spawner().use_count() <= (queued ? 2 : 1);
}

}  // namespace cloister::runtime

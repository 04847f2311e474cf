// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/spawn_queue.h"

#include <fcntl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::runtime {

namespace asio = boost::asio;

namespace {
constexpr uint64_t kMostAhead = 64;  // requests on their way; the socket holds a few hundred
}  // namespace

SpawnQueue::SpawnQueue(const asio::any_io_executor& executor, std::shared_ptr<Spawner> spawner)
    : spawner_(std::move(spawner)),
      socket_(executor, ::fcntl(spawner_->socket(), F_DUPFD_CLOEXEC, 0)),
      turn_changed_(executor) {}

Task<void> SpawnQueue::readable() {
  co_await socket_.async_wait(asio::posix::descriptor_base::wait_read,
                              asio::as_tuple(asio::use_awaitable));
}

Task<Result<>> SpawnQueue::ready() {
  co_await readable();
  co_return spawner_->ready();
}

Task<Result<Fd>> SpawnQueue::spawn(const SpawnRequest& request, std::span<const int> fds) {
  while (next_ - turn_ >= kMostAhead)
    co_await turn_changed_.wait();
  CO_TRY(spawner_->request(request, fds));
  const uint64_t number = next_++;
  while (turn_ != number)
    co_await turn_changed_.wait();
  auto answer = spawner_->answer();
  while (!answer && answer.error().code == Code::kUnavailable) {
    co_await readable();
    answer = spawner_->answer();
  }
  ++turn_;
  turn_changed_.notify();
  co_return answer;
}

const std::shared_ptr<SpawnQueue>& PresentQueue::get() {
  if (!queue_ || queue_->spawner() != host_->spawner()) {
    queue_ = std::make_shared<SpawnQueue>(executor_, host_->spawner());
  }
  return queue_;
}

}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
// SpawnQueue: a spawner's requests and answers as coroutines. Answers come in the order of the
// requests and name no request, so there is one queue for each spawner. Any number of requests may
// wait, and a bounded number is in flight. A process without an answer in time, because stopped or
// hanging, is killed, and all waiting requests fail with the process's death.
#pragma once

#include <memory>
#include <span>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"
#include "sandbox/host/root.h"
#include "sandbox/host/spawner.h"

namespace cloister::runtime {

class SpawnQueue : public std::enable_shared_from_this<SpawnQueue> {
 public:
  // `patience`: limit for each answer, counted from the turn of its request.
  SpawnQueue(const boost::asio::any_io_executor& executor, std::shared_ptr<Spawner> spawner,
             base::Millis patience);

  [[nodiscard]] const std::shared_ptr<Spawner>& spawner() const { return spawner_; }

  // Waits for the ready message of a new spawner.
  Task<Result<>> ready();
  // The pidfd of the new process. The caller keeps the queue alive meanwhile, by a pointer of its
  // own.
  Task<Result<Fd>> spawn(const SpawnRequest& request, std::span<const int> fds);

 private:
  Task<bool> readable(base::Monotonic until);
  Task<Result<Fd>> nextAnswer();

  std::shared_ptr<Spawner> spawner_;
  base::Millis patience_;
  boost::asio::posix::stream_descriptor socket_;
  async::Signal turn_changed_;
  uint64_t next_ = 0;  // the number of the next request
  uint64_t turn_ = 0;  // number of the request to be answered next
};

// The queue of a root's current spawner, for all users on this executor.
class PresentQueue {
 public:
  // `patience`: as above, for each current spawner.
  PresentQueue(boost::asio::any_io_executor executor, std::shared_ptr<Root> root,
               base::Millis patience)
      : executor_(std::move(executor)), root_(std::move(root)), patience_(patience) {}

  [[nodiscard]] Root& root() const { return *root_; }
  std::shared_ptr<SpawnQueue> get();
  // Whether no sandbox of the spawner is left.
  [[nodiscard]] bool idle() const;

 private:
  boost::asio::any_io_executor executor_;
  std::shared_ptr<Root> root_;
  base::Millis patience_;
  std::shared_ptr<SpawnQueue> queue_;
};

}  // namespace cloister::runtime

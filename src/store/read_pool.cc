// SPDX-License-Identifier: Apache-2.0
#include "store/read_pool.h"

#include <string>
#include <utility>

#include <pthread.h>

namespace cloister::store {

ReadPool::ReadPool(uint32_t threads, uint32_t waiting) : waiting_(waiting) {
  {
    const Lock lock(mutex_);
    idle_ = threads;
  }
  for (uint32_t i = 0; i < threads; ++i)
    threads_.emplace_back([this] { loop(); });
}

Result<> ReadPool::add(ReadFor purpose, std::function<void()> read) {
  {
    const Lock lock(mutex_);
    if (stopped_) return fail(Code::kUnavailable, "reading the ledger: the service stops");
    uint32_t& queued = queued_.at(static_cast<size_t>(purpose));
    // Reads that an idle thread is about to take wait for nobody.
    if (queued >= idle_ + waiting_) {
      Error error{Code::kUnavailable,
                  "reading the ledger: " + std::to_string(queued - idle_) +
                      " reads wait already; try again shortly",
                  ""};
      error.retry_after_seconds = 1;
      return std::unexpected(std::move(error));
    }
    ++queued;
    queue_.push_back({purpose, std::move(read)});
  }
  wake_.notifyOne();
  return {};
}

void ReadPool::stop() {
  std::deque<Read> dropped;  // destroyed without the lock
  {
    const Lock lock(mutex_);
    stopped_ = true;
    dropped.swap(queue_);
  }
  wake_.notifyAll();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ReadPool::loop() {
  pthread_setname_np(pthread_self(), "ledger-read");
  for (;;) {
    Read read;
    {
      const Lock lock(mutex_);
      while (!stopped_ && queue_.empty())
        wake_.wait(mutex_);
      if (stopped_) return;
      read = std::move(queue_.front());
      queue_.pop_front();
      --queued_.at(static_cast<size_t>(read.purpose));
      --idle_;
    }
    read.run();
    read.run = nullptr;  // releases what the read holds before the thread counts as idle
    const Lock lock(mutex_);
    ++idle_;
  }
}

}  // namespace cloister::store

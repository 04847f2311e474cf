// SPDX-License-Identifier: Apache-2.0
// The ledger's threads for reads that may wait. Each read takes the first free thread, in the order
// of the calls. The number of waiting reads is bounded.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "store/sql/mutex.h"

namespace cloister::store {

enum class ReadFor : uint8_t {
  kRequest,  // of a client, who can repeat it
  kService,  // the service's own: the end of a run, a look at credentials
};

// Thread-safe.
class ReadPool {
 public:
  // `waiting`: the requests that may wait for a thread. As many of the service's own reads may wait
  // beside them.
  ReadPool(uint32_t threads, uint32_t waiting);
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;
  ~ReadPool() { stop(); }

  // Runs `read` on a thread of the pool. kUnavailable, and `read` never runs: too many wait, or the
  // pool is stopped.
  Result<> add(ReadFor purpose, std::function<void()> read);
  // Drops the waiting reads, which so never run, and returns when the others have ended. Not from a
  // read. May be repeated.
  void stop();

 private:
  struct Read {
    ReadFor purpose = ReadFor::kRequest;
    std::function<void()> run;
  };

  void loop();

  const uint32_t waiting_;
  Mutex mutex_;
  Condition wake_;
  bool stopped_ CLOISTER_GUARDED_BY(mutex_) = false;
  uint32_t idle_ CLOISTER_GUARDED_BY(mutex_) = 0;  // threads without a read
  std::deque<Read> queue_ CLOISTER_GUARDED_BY(mutex_);
  std::array<uint32_t, 2> queued_ CLOISTER_GUARDED_BY(mutex_) = {};  // by purpose
  std::vector<std::thread> threads_;
};

}  // namespace cloister::store

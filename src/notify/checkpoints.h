// SPDX-License-Identifier: Apache-2.0
// Publishes the signed head of the audit log where who can write the ledger cannot: a log that was
// rewritten as a whole does not end in what was published before (`audit verify --against`).
//
// Nothing waits for it: each place is given the newest head, when there is a newer one, at most
// once an interval; what it missed meanwhile is covered by the next, for a head speaks of every
// entry before it. A place that fails is tried again, and the log and the metrics tell of it.
// On the io thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "store/store.h"

namespace cloister::notify {

struct CheckpointPlace {
  std::string name;  // "file", "webhook"
  // Once at the start: the newest entry it has, 0 if it cannot tell. What would hold up the io
  // thread is done on the threads that are given.
  std::function<boost::asio::awaitable<Result<uint64_t>>(boost::asio::thread_pool&)> newest;
  std::function<boost::asio::awaitable<Result<>>(boost::asio::thread_pool&, model::Checkpoint)>
      publish;
};

// Those that are configured. The webhook's secret and authorities are read now; kInvalid names the
// key.
Result<std::vector<CheckpointPlace>> openCheckpointPlaces(
    const model::Config::Audit::Publish& config);

class CheckpointPublisher {
 public:
  // Told after each attempt: the place, and the entry it now has; nullopt when it failed.
  using Told = std::function<void(const std::string& place, std::optional<uint64_t> entry)>;

  // `store` and `background` outlive it, and what it still publishes.
  CheckpointPublisher(const boost::asio::any_io_executor& executor, store::Store& store,
                      boost::asio::thread_pool& background, std::vector<CheckpointPlace> places,
                      Millis interval, Told told);
  CheckpointPublisher(const CheckpointPublisher&) = delete;
  CheckpointPublisher& operator=(const CheckpointPublisher&) = delete;
  ~CheckpointPublisher();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cloister::notify

// SPDX-License-Identifier: Apache-2.0
// Publishes the signed head of the audit log out of the reach of anyone who can write the ledger: a
// log rewritten as a whole does not end in the published head (`audit verify --against`).
//
// No request waits for a publication. Each place receives the newest head, if newer, at most once
// an interval. A later head makes up for missed heads, because a head covers every entry before. A
// failed place is retried, and the log and the metrics report the failure. On the io thread.
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
  // Called once at the start: gives the place's newest entry, 0 if unknown. Blocking work runs on
  // the given threads.
  std::function<boost::asio::awaitable<Result<uint64_t>>(boost::asio::thread_pool&)> newest;
  std::function<boost::asio::awaitable<Result<>>(boost::asio::thread_pool&, model::Checkpoint)>
      publish;
};

// The configured places. Reads the webhook's secret and authorities now; kInvalid names the key.
Result<std::vector<CheckpointPlace>> openCheckpointPlaces(
    const model::Config::Audit::Publish& config);

class CheckpointPublisher {
 public:
  // Called after each attempt: the place, and the entry now there; nullopt on failure.
  using Told = std::function<void(const std::string& place, std::optional<uint64_t> entry)>;

  // `store` and `background` outlive the publisher and its publications under way.
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

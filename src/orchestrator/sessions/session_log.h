// SPDX-License-Identifier: Apache-2.0
// SessionLog: what has happened in one session, for any number of readers at their own pace. It
// keeps the last kKept events; a reader that comes later than that begins with the session as it is
// now. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "async/signal.h"
#include "model/execution.h"
#include "model/session.h"

namespace cloister::orchestrator {

struct SessionEvent {
  uint64_t seq = 0;                       // from 1 on
  std::optional<model::Session> session;  // its new state; otherwise of one of its programs:
  std::string execution;
  model::Status status = model::Status::kRunning;
  std::string tenant;  // whose program it is
  std::string agent;
};

class SessionLog {
 public:
  // The last of them are kept, and of sessions with much about them fewer: at least one.
  static constexpr size_t kKept = 256;
  static constexpr size_t kKeptBytes = size_t{256} << 10;

  explicit SessionLog(boost::asio::any_io_executor executor) : changed_(std::move(executor)) {}
  SessionLog(const SessionLog&) = delete;
  SessionLog& operator=(const SessionLog&) = delete;
  ~SessionLog() = default;

  // The closed log of a session that has ended, from its record.
  static std::shared_ptr<SessionLog> ofRecord(boost::asio::any_io_executor executor,
                                              const model::Session& session);

  void publish(const model::Session& session);  // closes it with its end
  void publish(const model::Execution& execution);
  void close();

  // The first event after `seq`; where that is not kept, or `seq` is not one of this log, the
  // session as it is now. Nothing when there is none yet.
  [[nodiscard]] std::optional<SessionEvent> after(uint64_t seq) const;
  [[nodiscard]] const model::Session& latest() const { return latest_; }
  [[nodiscard]] bool closed() const { return closed_; }

  // Resumes when there is one after `seq`, the log is closed, or `timeout` has passed. The caller
  // keeps the log alive.
  boost::asio::awaitable<void> wait(uint64_t seq, std::chrono::milliseconds timeout);

 private:
  void add(SessionEvent event);

  struct Kept {
    SessionEvent event;
    size_t cost = 0;
  };

  std::deque<Kept> events_;
  size_t bytes_ = 0;  // what they cost
  uint64_t last_ = 0;
  model::Session latest_;
  bool closed_ = false;
  async::Signal changed_;
};

}  // namespace cloister::orchestrator

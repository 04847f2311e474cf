// SPDX-License-Identifier: Apache-2.0
// SessionLog: the events of one session, for any number of readers at their own pace. The log keeps
// the last kKept events; a late reader begins with the session's present state. One thread.
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
  std::optional<model::Session> session;  // the new state; without it, an event of a program:
  std::string execution;
  model::Status status = model::Status::kRunning;
  std::string tenant;  // the program's tenant
  std::string agent;
};

class SessionLog {
 public:
  // The last events are kept; of sessions with large texts fewer events, but at least one.
  static constexpr size_t kKept = 256;
  static constexpr size_t kKeptBytes = size_t{256} << 10;

  explicit SessionLog(boost::asio::any_io_executor executor) : changed_(std::move(executor)) {}
  SessionLog(const SessionLog&) = delete;
  SessionLog& operator=(const SessionLog&) = delete;
  ~SessionLog() = default;

  // The closed log of an ended session, from its record.
  static std::shared_ptr<SessionLog> ofRecord(boost::asio::any_io_executor executor,
                                              const model::Session& session);

  void publish(const model::Session& session);  // the end closes the log
  void publish(const model::Execution& execution);
  void close();

  // The first event after `seq`. If the event is not kept, or `seq` is not of this log, the
  // session's present state. Nothing without an event yet.
  [[nodiscard]] std::optional<SessionEvent> after(uint64_t seq) const;
  [[nodiscard]] const model::Session& latest() const { return latest_; }
  [[nodiscard]] bool closed() const { return closed_; }

  // Resumes at an event after `seq`, at the close, or after `timeout`. The caller keeps the log
  // alive.
  boost::asio::awaitable<void> wait(uint64_t seq, std::chrono::milliseconds timeout);

 private:
  void add(SessionEvent event);

  struct Kept {
    SessionEvent event;
    size_t cost = 0;
  };

  std::deque<Kept> events_;
  size_t bytes_ = 0;  // size of the kept events
  uint64_t last_ = 0;
  model::Session latest_;
  bool closed_ = false;
  async::Signal changed_;
};

}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
// SessionFeed: a reader's way through the events of a session, like EventFeed for an execution.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/feeds/event_feed.h"
#include "api/http/http.h"
#include "base/clock.h"
#include "base/result.h"
#include "orchestrator/sessions/session_log.h"

namespace cloister::api {

// A reader's progress: the id of an event, its number, and ".end" after the last event.
struct SessionPosition {
  uint64_t seq = 0;  // 0: none seen
  bool ended = false;

  static Result<SessionPosition> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
};

class SessionFeed {
 public:
  SessionFeed(std::shared_ptr<orchestrator::SessionLog> log, SessionPosition from, Millis heartbeat,
              model::Principal reader);

  // The next event (status, execution, heartbeat), nothing after the end. Executions hidden from
  // the reader have no event.
  Task<std::optional<Event>> next();

 private:
  Event give(const orchestrator::SessionEvent& event);

  std::shared_ptr<orchestrator::SessionLog> log_;
  SessionPosition position_;
  Millis heartbeat_;
  model::Principal reader_;
  base::Monotonic next_heartbeat_;
};

}  // namespace cloister::api

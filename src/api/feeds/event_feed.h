// SPDX-License-Identifier: Apache-2.0
// EventFeed: a reader's way through an execution's live log, as events. A feed holds a position and
// no output, so a slow reader costs nothing. Server-Sent Events and WebSockets carry the same feed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/http.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "model/execution.h"
#include "orchestrator/runs/output_log.h"

namespace cloister::api {

// A reader's progress: the id of an event, "<status>.<stdout offset>.<stderr offset>". A position
// is a place, not an entry of a log, so positions stay valid over restarts of the service.
struct Position {
  uint64_t status = 0;  // 0: none seen; otherwise 1 + the last seen model::Status
  uint64_t out = 0;
  uint64_t err = 0;

  static Result<Position> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool ended() const;  // a terminal status has been seen, so nothing follows
  friend bool operator==(const Position&, const Position&) = default;
};

struct Event {
  std::string type;  // status, stdout, stderr, usage, artifact, heartbeat
  std::string id;    // the position after the event; "" for a heartbeat
  base::json::object data;
};

class EventFeed {
 public:
  EventFeed(std::shared_ptr<orchestrator::OutputLog> log, Position from, Millis heartbeat);

  // The next event, nothing once the terminal status was given. From the beginning, the history of
  // the usage comes first. Usage comes at most every second until the end, a heartbeat every
  // `heartbeat`.
  Task<std::optional<Event>> next();

 private:
  std::optional<Event> ready();
  std::optional<Event> heartbeatEvent();
  std::optional<Event> statusEvent();
  std::optional<Event> outputEvent(model::Stream stream, std::string_view name, uint64_t& offset);
  std::optional<Event> usageEvent(bool final);
  [[nodiscard]] Millis patience() const;
  std::optional<Event> artifactEvent();
  [[nodiscard]] Event event(std::string type, base::json::object data) const;

  std::shared_ptr<orchestrator::OutputLog> log_;
  Position position_;
  Millis heartbeat_;
  base::Monotonic next_heartbeat_;
  base::Monotonic next_usage_;
  size_t artifacts_ = 0;      // given so far
  base::json::object usage_;  // given last
  // The points of the history that were there before the reader came, to be given first.
  std::vector<model::Usage> history_;
  size_t points_ = 0;  // given so far
};

// An execution without its output: the content of `status` events and lists.
base::json::object summary(const model::Execution& execution);

std::string toServerSentEvent(const Event& event);
std::string toWebSocketMessage(Event event);

}  // namespace cloister::api

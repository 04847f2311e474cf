// SPDX-License-Identifier: Apache-2.0
// Reads a stream of Server-Sent Events to its end. After a broken connection (a restart of the
// control plane) the stream resumes at the last event.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cli/server.h"
#include "net/blocking_client.h"
#include "net/sse.h"

namespace cloister::cli {

class EventStream {
 public:
  // Heartbeats come far more often.
  static constexpr Millis kSilence{60'000};

  // True after the last event. An error ends the reading.
  using Visit = std::function<Result<bool>(const net::SseEvent&)>;
  // Called before each wait; returns the longest wait.
  using Idle = std::function<Millis()>;

  EventStream(net::BlockingClient& client, std::string target);

  // Shows `visit` every event but heartbeats. kUnavailable when the server stays away for 60 s or
  // waiting was interrupted.
  Result<> read(const Visit& visit, const Idle& idle = [] { return kSilence; });

 private:
  Result<bool> oneConnection(const Visit& visit, const Idle& idle);  // true: the end was seen
  Result<> open();
  Result<bool> show(const net::SseEvent& event, const Visit& visit);

  net::BlockingClient& client_;
  std::string target_;
  std::string last_event_;
  bool moved_ = false;    // this connection has received an event
  bool refused_ = false;  // by `visit`
};

// A whole stream for a command: its exit status at the end, or when a signal comes.
Result<int> readStream(const Globals& globals, const std::string& target,
                       const EventStream::Visit& visit);

}  // namespace cloister::cli

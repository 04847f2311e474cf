// SPDX-License-Identifier: Apache-2.0
// The messages that the node may send, and their allowed times. Each channel is one sandbox, one
// program of a session's sandbox, or one plan call, with a small state machine. A frame that the
// channel's state does not allow is a protocol error and closes the connection. No I/O: the remote
// runtime feeds the channels. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/signal.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/outcome.h"
#include "net/frame_connection.h"

namespace cloister::runtime {

struct Channel {
  enum class Kind {
    kSandbox,  // of a single run
    kSession,  // a session's sandbox
    kProgram,  // in a session: the channel is free after the program's end
    kPlan,     // a call
  };
  enum class State {
    kProvisioning,  // → kProvisioned, kFailed
    kIdle,          // → kUsage, kDied, of a session's; nothing is due
    kHeld,          // a program before kGo → kFailed; nothing is due
    kStarting,      // → kStarted, kFinished, kFailed
    kRunning,       // → kOutput, kFile…, kUsage, kInputTaken, kFinished, kFailed
    kEnded,         // nothing is due
    kClosing,       // → kTornDown; whatever else was under way is dropped
    kPlanning,      // → kPlanned, kFailed
    kGone,          // the last frame was received
  };

  Channel(boost::asio::any_io_executor executor, Kind what);

  const Kind kind;
  State state;
  std::deque<net::Frame> inbox;  // arrived and not yet taken
  uint32_t unacknowledged = 0;   // window units the node has used
  uint32_t input_window;         // bytes of input that may be sent
  bool in_file = false;
  uint64_t file_left = 0;            // bytes of the present file still allowed
  std::optional<model::Usage> used;  // last report of a session's sandbox
  Millis patience{0};                // how long the node may be silent while something is due
  base::Monotonic due{};             // end of the waiting time
  async::Signal changed;             // a frame more, or the link has ended

  // Waits for the node's next word at most `allowed`.
  void expect(State next, Millis allowed) {
    state = next;
    patience = allowed;
    due = base::monotonicNow() + allowed;
  }
};

class Channels {
 public:
  // Takes a frame to its channel; kInvalid: the node broke the protocol.
  Result<> deliver(net::Frame frame);
  // A new channel with a number never used before.
  std::pair<uint32_t, std::shared_ptr<Channel>> open(boost::asio::any_io_executor executor,
                                                     Channel::Kind kind, Millis patience);
  // Wakes everybody, because the link has ended.
  void notifyAll();
  // True if the node has been silent for longer than some channel allows.
  [[nodiscard]] bool overdue(base::Monotonic now) const;
  // Extends all deadlines.
  void postpone(Millis by);

 private:
  std::map<uint32_t, std::shared_ptr<Channel>> channels_;
  uint32_t next_ = 1;
};

}  // namespace cloister::runtime

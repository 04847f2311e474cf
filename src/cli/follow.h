// SPDX-License-Identifier: Apache-2.0
// Follows an execution to its end, writing its output live (see event_stream.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "cli/event_stream.h"
#include "cli/render/terminal.h"
#include "net/blocking_client.h"

namespace cloister::cli {

struct FollowOptions {
  bool print = true;          // stdout and stderr of the program to ours
  bool raw = false;           // control sequences reach a terminal unchanged
  bool progress = true;       // a spinner until the first output
  bool wait_approval = true;  // waits while blocked; otherwise returns
  bool say_blocked = true;    // reports a block; false if the user knows
};

class Follower {
 public:
  Follower(net::BlockingClient& client, const std::string& id, FollowOptions options);

  // The execution of the last status event (without output); returns at a blocked execution, unless
  // its approval is to be waited for. Errors as EventStream::read().
  Result<base::json::object> toEnd();

  // After toEnd(): writes a stream's rest, missing in the events, from the artifact with the whole
  // stream. An incomplete stream sets the execution's `output_cut`.
  Result<> rest(net::BlockingClient& client, base::json::object& execution);

  // True when nobody reads our stdout or stderr any more; toEnd() then fails at once.
  [[nodiscard]] bool readerGone() const { return reader_gone_; }

 private:
  struct Output {
    int fd;
    bool filtered;
    uint64_t offset = 0;  // bytes written so far
    TerminalFilter filter = {};
  };

  Result<bool> handle(const net::SseEvent& event);
  Result<> output(Output& to, const base::json::object& data);
  Result<> output(Output& to, uint64_t offset, std::string bytes);
  Result<> restOf(net::BlockingClient& client, std::string_view name, Output& to,
                  base::json::object& execution);
  Millis tick();

  EventStream stream_;
  FollowOptions options_;
  Output out_;
  Output err_;
  Progress progress_;
  base::json::object execution_;
  bool reader_gone_ = false;
  bool said_blocked_ = false;
};

}  // namespace cloister::cli

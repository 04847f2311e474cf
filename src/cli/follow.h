// SPDX-License-Identifier: Apache-2.0
// Follows one execution to its end, writing its output as it comes (see event_stream.h).
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
  bool raw = false;           // control sequences reach a terminal as they are
  bool progress = true;       // a spinner until the first output
  bool wait_approval = true;  // of one that is blocked; otherwise it is left so
  bool say_blocked = true;    // that it is; false where the user knows
};

class Follower {
 public:
  Follower(net::BlockingClient& client, const std::string& id, FollowOptions options);

  // The execution as its last status event showed it (without output); one that is blocked is left
  // so, unless its approval is to be waited for. Errors as
  // EventStream::read().
  Result<base::json::object> toEnd();

  // After toEnd(): writes what the events did not have of a stream, from the artifact that has the
  // whole. A stream that is not whole then makes `output_cut` of the execution true.
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

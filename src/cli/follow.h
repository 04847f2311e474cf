// SPDX-License-Identifier: Apache-2.0
// Follows one execution to its end over Server-Sent Events, writing its output as it comes. A
// connection that breaks (the control plane restarts) is made again where it was.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/http_client.h"
#include "cli/sse.h"
#include "cli/terminal.h"

namespace cloister::cli {

struct FollowOptions {
  bool print = true;     // stdout and stderr of the program to ours
  bool raw = false;      // control sequences reach a terminal as they are
  bool progress = true;  // a spinner until the first output
};

class Follower {
 public:
  Follower(HttpClient& client, std::string id, FollowOptions options);

  // The execution as its last status event showed it (without output). kUnavailable when the
  // server stays away for 60 s or waiting was interrupted.
  Result<base::json::object> toEnd();

  // True when nobody reads our stdout or stderr any more; toEnd() then fails at once.
  [[nodiscard]] bool readerGone() const { return reader_gone_; }

 private:
  struct Output {
    int fd;
    bool filtered;
    uint64_t offset = 0;  // bytes written so far
    TerminalFilter filter = {};
  };

  Result<bool> oneConnection();  // true: the end was seen
  Result<bool> handle(const SseEvent& event);
  Result<> output(Output& to, const base::json::object& data);

  HttpClient& client_;
  std::string id_;
  FollowOptions options_;
  Output out_;
  Output err_;
  Progress progress_;
  std::string last_event_;
  base::json::object execution_;
  bool reader_gone_ = false;
  bool moved_ = false;  // something came on this connection
};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
// The events of OpenSandbox's execd about one program: each is a JSON object and an empty line,
// without "data:". A reader follows the live log of an execution (runs/output_log.h) at its own
// pace. docs/howto/opensandbox.md lists the events.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/http.h"
#include "base/clock.h"
#include "base/json.h"
#include "model/execution.h"
#include "orchestrator/runs/output_log.h"

namespace cloister::api::compat::opensandbox {

// A stream's bytes as lines. A line longer than kMostLine is given in parts.
class Lines {
 public:
  static constexpr size_t kMostLine = size_t{64} << 10;

  // The complete lines after further bytes, each without its newline.
  std::vector<std::string> take(std::string_view bytes);
  // The rest without a newline; empty for none.
  std::vector<std::string> rest();

 private:
  std::string held_;
};

// `text` as UTF-8: each byte of no character becomes U+FFFD.
std::string readable(std::string_view text);

enum class Program : uint8_t { kCommand, kCode };

// An event with the present time, {"type", "timestamp"}.
base::json::object event(std::string_view type);
base::json::object textEvent(std::string_view type, std::string_view text);

// The last events of an ended execution: results, then `execution_complete` or `error`. The error
// of a command has its exit code as value, -1 for an end by a signal or at a limit.
std::vector<base::json::object> endEvents(const model::Execution& ended, Program program);

// An error as in Jupyter, {"ename", "evalue", "traceback"}, from a traceback on stderr.
base::json::object errorOf(std::string_view said);

std::string toBlob(const base::json::object& event);

// The first events: `init` with the id, and a note as `status`, if any.
struct Opening {
  std::string id;
  std::string note = {};
};

// Sends the events of an execution up to its end, and a `ping` event each `ping`. False: the client
// went away before the end.
Task<bool> sendExecution(std::shared_ptr<orchestrator::OutputLog> log, Opening opening,
                         Program program, Millis ping, BodyWriter& out);

}  // namespace cloister::api::compat::opensandbox

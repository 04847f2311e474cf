// SPDX-License-Identifier: Apache-2.0
// `cloister serve`: the service on one machine, in one command.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace cloister::supervisor {

struct ServeOptions {
  std::optional<std::string> listen;  // else the configuration's
  std::optional<std::string> state;   // else the configuration's
  std::optional<std::string> config;  // a file
  bool private_server = false;        // for one `cloister run`: quiet, removes the state
  bool mcp_fixtures = false;          // the official MCP suite's; only on loopback
  int lifeline = -1;                  // stop at its end of file
  int ready_fd = -1;                  // "host:port\n" is written here when ready
};

// Runs until a stop signal.
Result<> serve(const ServeOptions& options);

}  // namespace cloister::supervisor

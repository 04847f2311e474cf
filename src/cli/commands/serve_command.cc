// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "supervisor/check.h"
#include "supervisor/serve.h"

namespace cloister::cli {
namespace {

namespace json = base::json;
using base::Flag;

constexpr Flag kFlags[] = {
    {.name = "listen",
     .value = "ADDRESS:PORT",
     .help = "where clients connect (default 127.0.0.1:8750; port 0: any free one)"},
    {.name = "config", .value = "FILE", .help = "the configuration, see docs/CONFIGURATION.md"},
    {.name = "check", .value = "", .help = "validate the configuration, and start nothing"},
    {.name = "mcp-conformance-fixtures",
     .value = "",
     .help = "add what the official MCP conformance suite calls; only on loopback, never in use"},
    {.name = "private", .value = "", .help = ""},
    {.name = "lifeline", .value = "FD", .help = ""},
    {.name = "ready-fd", .value = "FD", .help = ""},
};

// Says what is wrong and names the key; exits with 1 if the service would refuse its configuration.
// The error of a check that could not be made has no key, and its own status.
Result<int> check(const Invocation& invocation, const supervisor::ServeOptions& options) {
  const auto warnings = supervisor::checkConfiguration(options);
  if (!warnings && warnings.error().code == Code::kInternal) {
    return std::unexpected(warnings.error());
  }
  const std::string what = options.config.value_or("the default configuration");
  if (invocation.globals.json) {
    json::object answer{{"valid", warnings.has_value()}};
    if (warnings) {
      answer["warnings"] = json::array(warnings->begin(), warnings->end());
    } else {
      answer["error"] = warnings.error().message;
      answer["key"] = warnings.error().field;
    }
    printJson(answer);
    return warnings ? 0 : 1;
  }
  if (!warnings) {
    writeTo(STDERR_FILENO, "cloister: " + warnings.error().message + "\n");
    return 1;
  }
  for (const std::string& warning : *warnings)
    writeTo(STDERR_FILENO, "warning: " + warning + "\n");
  writeTo(STDOUT_FILENO, what + " is valid\n");
  return 0;
}

Result<int> serveCommand(const Invocation& invocation) {
  constexpr int64_t kMostFds = 1 << 20;
  const base::Flags& flags = invocation.flags;
  supervisor::ServeOptions options;
  options.listen = flags.text("listen");
  options.state = invocation.globals.state;
  options.config = flags.text("config");
  options.mcp_fixtures = flags.has("mcp-conformance-fixtures");
  options.private_server = flags.has("private");
  options.lifeline = static_cast<int>(TRY(flags.integer("lifeline", 3, kMostFds)).value_or(-1));
  options.ready_fd = static_cast<int>(TRY(flags.integer("ready-fd", 3, kMostFds)).value_or(-1));
  if (flags.has("check")) return check(invocation, options);
  TRY(supervisor::serve(options));
  return 0;
}

}  // namespace

const Command kServe = {
    .name = "serve",
    .summary = "run the service on this machine",
    .details =
        "Starts the control plane and the node, restarts what dies, and stops in order on SIGTERM "
        "or\n"
        "Ctrl-C. The state directory (default /var/lib/cloister for root, else\n"
        "~/.local/state/cloister) holds the ledger, the keys and admin.key. Every request needs a\n"
        "key, wherever it comes from.\n"
        "\n"
        "With --check the command exits with 0 for a valid configuration, with 1 for another, and\n"
        "names the key.\n"
        "\n"
        "An installation has the systemd units cloister.service and cloister.socket. The first\n"
        "one reads flags from /etc/default/cloister: CLOISTER_FLAGS=\"--config FILE\".",
    .flags = kFlags,
    .examples =
        "cloister serve\n"
        "cloister serve --check --config /etc/cloister.yaml\n"
        "cloister serve --listen 0.0.0.0:8750 --state /srv/cloister --config cloister.yaml",
    .run = serveCommand};

}  // namespace cloister::cli

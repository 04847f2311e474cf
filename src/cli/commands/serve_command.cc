// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "supervisor/serve.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr Flag kFlags[] = {
    {.name = "listen",
     .value = "ADDRESS:PORT",
     .help = "where clients connect (default 127.0.0.1:8750; port 0: any free one)"},
    {.name = "config", .value = "FILE", .help = "the configuration, see docs/CONFIGURATION.md"},
    {.name = "mcp-conformance-fixtures",
     .value = "",
     .help = "add what the official MCP conformance suite calls; only on loopback, never in use"},
    {.name = "private", .value = "", .help = ""},
    {.name = "lifeline", .value = "FD", .help = ""},
    {.name = "ready-fd", .value = "FD", .help = ""},
};

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
        "An installation has the systemd units cloister.service and cloister.socket. The first\n"
        "one reads flags from /etc/default/cloister: CLOISTER_FLAGS=\"--config FILE\".",
    .flags = kFlags,
    .examples =
        "cloister serve\n"
        "cloister serve --listen 0.0.0.0:8750 --state /srv/cloister --config cloister.yaml",
    .run = serveCommand};

}  // namespace cloister::cli

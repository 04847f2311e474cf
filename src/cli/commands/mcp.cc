// SPDX-License-Identifier: Apache-2.0
// `cloister mcp`: an MCP server on stdin and stdout, for agents that start the server as a process.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/command.h"
#include "cli/mcp_bridge.h"
#include "cli/render/verdict.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

constexpr Millis kLastAnswers{2'000};

// Lines from a descriptor, of bounded length.
class Lines {
 public:
  explicit Lines(McpBridge& bridge) : bridge_(bridge) {}

  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      partial_ += bytes.substr(0, end);
      too_long_ |= partial_.size() > McpBridge::kMaxLine;
      if (too_long_) partial_.clear();
      if (end == std::string_view::npos) return;
      bytes.remove_prefix(end + 1);
      if (std::exchange(too_long_, false)) {
        bridge_.refuseLine();
      } else {
        bridge_.take(std::exchange(partial_, {}));
      }
    }
  }

 private:
  McpBridge& bridge_;
  std::string partial_;
  bool too_long_ = false;
};

// Serves until the end of stdin, a signal, or a client that no longer reads.
Result<int> serveLines(McpBridge& bridge, const supervisor::Signals& signals) {
  constexpr size_t kPiece = 65'536;
  constexpr int kLook = 1'000;  // ms: detects a silent client that has left
  Lines lines(bridge);
  std::string bytes(kPiece, '\0');
  while (bridge.alive()) {
    pollfd polled[3] = {
        {STDIN_FILENO, POLLIN, 0}, {signals.fd(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
    if (::poll(polled, 3, kLook) < 0 && errno != EINTR) return failErrno("waiting for messages");
    if (polled[1].revents != 0) {
      if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    }
    if ((polled[2].revents & POLLERR) != 0) return 0;
    if (polled[0].revents == 0) continue;
    const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return failErrno("reading stdin");
    if (n == 0) return 0;
    lines.feed(std::string_view(bytes).substr(0, static_cast<size_t>(n)));
  }
  return 0;
}

Result<int> mcp(const Invocation& invocation) {
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  const Service service = TRY(anyServer(invocation.globals, signals.fd()));
  McpBridge bridge(service.endpoint, STDOUT_FILENO);
  const Result<int> status = serveLines(bridge, signals);
  // In `printf … | cloister mcp` the client still waits for answers.
  if (status && *status == 0 && bridge.alive()) bridge.settle(kLastAnswers);
  bridge.finish();
  return status;
}

}  // namespace

const Command kMcp = {
    .name = "mcp",
    .summary = "serve MCP (Model Context Protocol) on stdin and stdout, for agents",
    .details =
        "Passes messages on to a server, the one that other commands use; where none runs it "
        "starts\n"
        "a private one, which ends with it. Standard output carries protocol only. The end of\n"
        "standard input ends it, and two seconds later the calls that are under way. docs/MCP.md "
        "has the tools and\n"
        "how clients are configured; a client that speaks HTTP can use URL/mcp of the server.",
    .examples =
        "cloister mcp\n"
        "CLOISTER_URL=http://build-host:8750 CLOISTER_API_KEY=... cloister mcp",
    .run = mcp};

}  // namespace cloister::cli

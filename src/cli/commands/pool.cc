// SPDX-License-Identifier: Apache-2.0
// `cloister pool`: the node's ready sandboxes, once or live.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/pool_text.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int kEveryMillis = 1000;

// Redraws `text` without a flicker: overwrites the lines, then clears their rest and the lines
// below (ECMA-48 CUP, EL, ED).
std::string redrawn(const std::string& text) {
  std::string out = "\x1b[H";
  for (const char c : text)
    out.append(c == '\n' ? "\x1b[K" : "").push_back(c);
  return out + "\x1b[J";
}

std::string shown(const json::object& pool, const Invocation& invocation, bool live) {
  if (invocation.globals.json) return streamed(pool);
  if (!live) return poolText(pool);
  const std::string text = "live: " + base::formatTime(base::wallMicros()) +
                           ", each second, ^C ends\n\n" + poolText(pool);
  return isTerminal(STDOUT_FILENO) ? redrawn(text) : text + "\n";
}

// With --watch repeats each second until a signal. Waits for a restarting server or node.
Result<int> show(net::BlockingClient& client, const Invocation& invocation,
                 const supervisor::Signals& signals) {
  const bool live = invocation.flags.has("watch");
  for (bool first = true;; first = false) {
    const auto pool = call(client, "GET", "/v1/pool");
    if (!pool && (first || pool.error().code != Code::kUnavailable)) {
      return std::unexpected(pool.error());
    }
    const bool written = pool ? writeTo(STDOUT_FILENO, shown(*pool, invocation, live))
                              : writeTo(STDERR_FILENO, "cloister: " + pool.error().message + "\n");
    if (!written) return kStatusSignal + SIGPIPE;
    if (!live) return 0;
    pollfd signal{signals.fd(), POLLIN, 0};
    ::poll(&signal, 1, kEveryMillis);
    if (const int number = signals.take(); number > 0) return kStatusSignal + number;
  }
}

Result<int> pool(const Invocation& invocation) {
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  net::BlockingClient client = TRY(connect(invocation.globals, signals.fd()));
  Result<int> status = show(client, invocation, signals);
  if (status) return status;
  if (const int number = signals.take(); number > 0) return kStatusSignal + number;
  return status;
}

constexpr Flag kFlags[] = {
    {.name = "watch", .value = "", .help = "show it live, each second, until interrupted"},
};

}  // namespace

const Command kPool = {.name = "pool",
                       .summary = "show what is kept ready, and how fast sandboxes are had",
                       .details =
                           "It shows the runtime process alone. Needs an administrator's key. "
                           "Counts are since the node's start.",
                       .flags = kFlags,
                       .examples = "cloister pool --watch",
                       .run = pool};

}  // namespace cloister::cli

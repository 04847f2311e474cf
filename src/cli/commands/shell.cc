// SPDX-License-Identifier: Apache-2.0
// `cloister shell`: this terminal, in a session.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <thread>

#include <stdlib.h>
#include <termios.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/job.h"
#include "cli/relay.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "cli/session_body.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr Millis kPatience{5'000};

// Passes every byte of the user to the program during this object's life.
class RawTerminal {
 public:
  static Result<RawTerminal> enter() {
    RawTerminal terminal;
    if (::tcgetattr(STDIN_FILENO, &terminal.before_) != 0) return failErrno("asking the terminal");
    termios raw = terminal.before_;
    ::cfmakeraw(&raw);
    if (::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) return failErrno("setting the terminal");
    terminal.set_ = true;
    return terminal;
  }
  RawTerminal(RawTerminal&& other) noexcept
      : before_(other.before_), set_(std::exchange(other.set_, false)) {}
  RawTerminal& operator=(RawTerminal&&) = delete;
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal() {
    if (set_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

  // Resets the remains of a killed program: alternate screen, hidden cursor, reports of the mouse
  // and of pasted text, colours.
  static void tidy() {
    writeTo(STDOUT_FILENO,
            "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l"
            "\x1b[?1l\x1b>\x1b[0m\r\n");
  }

 private:
  RawTerminal() = default;
  termios before_{};
  bool set_ = false;
};

json::object sizeHere() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {{"cols", 80}, {"rows", 24}};
  }
  constexpr uint16_t kMost = 4096;
  return {{"cols", std::min(size.ws_col, kMost)}, {"rows", std::min(size.ws_row, kMost)}};
}

// Sends this terminal's size to the program; signals for this command end the program.
class SizeRelay {
 public:
  SizeRelay(net::Endpoint endpoint, std::string id, const supervisor::Signals& signals,
            const supervisor::Signals& sizes, Latch stop, Latch gone)
      : endpoint_(std::move(endpoint)),
        target_("/v1/executions/" + net::percentEncode(id)),
        signals_(signals),
        sizes_(sizes),
        stop_(std::move(stop)),
        gone_(std::move(gone)),
        thread_([this] { run(); }) {}
  SizeRelay(const SizeRelay&) = delete;
  SizeRelay& operator=(const SizeRelay&) = delete;
  ~SizeRelay() {
    stop_.set();
    thread_.join();
  }
  // Readable once nobody waits any longer.
  [[nodiscard]] int gone() const { return gone_.fd(); }

 private:
  void run() {
    for (;;) {
      pollfd polled[3] = {
          {signals_.fd(), POLLIN, 0}, {sizes_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
      if (::poll(polled, 3, -1) < 0 && errno != EINTR) return;
      if (polled[2].revents != 0) return;
      const int signal = signals_.take();
      if (sizes_.take() == SIGWINCH) send("POST", target_ + ":resize", sizeHere());
      if (signal == SIGTERM || signal == SIGHUP) {
        send("DELETE", target_, {});
        gone_.set();
      }
    }
  }
  void send(std::string_view method, const std::string& target, const json::object& body) const {
    net::BlockingClient client(endpoint_, stop_.fd());
    const std::string text = base::toJson(body);
    (void)client.exchange({.method = method, .target = target, .body = text}, kPatience);
  }

  net::Endpoint endpoint_;
  std::string target_;
  const supervisor::Signals& signals_;
  const supervisor::Signals& sizes_;
  Latch stop_;
  Latch gone_;
  std::thread thread_;
};

// A session made by this command, and ended with the command.
class OwnSession {
 public:
  OwnSession(const net::Endpoint& endpoint, std::string id)
      : endpoint_(endpoint), id_(std::move(id)) {}
  OwnSession(const OwnSession&) = delete;
  OwnSession& operator=(const OwnSession&) = delete;
  ~OwnSession() {
    net::BlockingClient client(endpoint_);
    (void)client.exchange({.method = "DELETE", .target = "/v1/sessions/" + net::percentEncode(id_)},
                          kPatience);
  }

 private:
  const net::Endpoint& endpoint_;
  std::string id_;
};

json::object bodyFor(const base::Flags& flags) {
  json::object body;
  json::array command;
  for (const std::string& word : flags.rest())
    command.emplace_back(json::string(word));
  if (command.empty())
    command = {"sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i"};
  body["command"] = std::move(command);
  body["tty"] = sizeHere();
  const char* term = ::getenv("TERM");
  if (term != nullptr && *term != '\0' && base::isUtf8(term)) {
    body["env"] = json::object{{"TERM", term}};
  }
  return body;
}

Result<Outcome> attend(Job& job, const supervisor::Signals& resized, const std::string& id) {
  SizeRelay sizes(job.endpoint, id, job.signals, resized, TRY(Latch::make()), TRY(Latch::make()));
  const InputRelay input(job.endpoint, id, TRY(Latch::make()));
  net::BlockingClient client(job.endpoint, sizes.gone());
  return follow(job, client, id);
}

// Runs the program on this terminal, from its start to its end.
Result<Outcome> onTerminal(Job& job, const supervisor::Signals& resized) {
  Outcome at = TRY(start(job));
  const json::object* accepted = std::get_if<json::object>(&at);
  if (accepted == nullptr || isDenied(*accepted)) return at;
  const std::string id = textOf(*accepted, "id");
  const RawTerminal raw = TRY(RawTerminal::enter());
  Result<Outcome> ended = attend(job, resized, id);
  const bool by_itself = ended && std::holds_alternative<json::object>(*ended) &&
                         textOf(std::get<json::object>(*ended), "status") == "completed";
  if (!by_itself) RawTerminal::tidy();
  return ended;
}

Result<int> shell(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  if (!isTerminal(STDIN_FILENO) || !isTerminal(STDOUT_FILENO)) {
    return fail(Code::kInvalid,
                "this is not a terminal; `cloister exec SESSION -- COMMAND` needs none");
  }
  const supervisor::Signals signals = TRY(supervisor::Signals::block({SIGTERM, SIGHUP, SIGPIPE}));
  const supervisor::Signals resized = TRY(supervisor::Signals::block({SIGWINCH}));
  const net::Endpoint endpoint = TRY(needServer(invocation.globals));
  std::optional<OwnSession> own;
  std::string session = flags.operands().empty() ? "" : flags.operands()[0];
  if (session.empty()) {
    net::BlockingClient client(endpoint, signals.fd());
    const Submission submission{.target = "/v1/sessions", .body = TRY(sessionBody(flags))};
    session = textOf(TRY(submit(client, submission)), "id");
    own.emplace(endpoint, session);
  }
  Job job{.endpoint = endpoint,
          .signals = signals,
          .submission = {.target = "/v1/sessions/" + net::percentEncode(session) + "/exec",
                         .body = bodyFor(flags)},
          .output = {.print = true, .raw = true, .progress = false}};
  const Outcome ended = TRY(onTerminal(job, resized));
  if (const int* status = std::get_if<int>(&ended)) return *status;
  report(std::get<json::object>(ended), invocation.globals.json);
  return exitStatus(std::get<json::object>(ended));
}

}  // namespace

const Command kShell = {
    .name = "shell",
    .operands = "[SESSION] [-- COMMAND…]",
    .max_operands = 1,
    .summary = "a terminal in a session",
    .details =
        "Without a SESSION one is made, and ended with the shell; the flags are its own, as of\n"
        "`cloister session create`. Every key goes to the program; its end is the shell's.\n"
        "The exit status is the program's own.",
    .flags = sessionFlags(),
    .examples =
        "cloister shell\n"
        "cloister shell $S\n"
        "cloister shell $S -- vim notes.txt",
    .run = shell,
    .failure_status = kStatusService,
};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/interactive.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include <stdlib.h>
#include <termios.h>

#include "cli/api.h"
#include "cli/relay.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"

namespace cloister::cli {
namespace {

constexpr Millis kPatience{5'000};

std::string sessionTarget(const std::string& id) {
  return "/v1/sessions/" + net::percentEncode(id);
}

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

json::object terminalSize() {
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
      if (sizes_.take() == SIGWINCH) send("POST", target_ + ":resize", terminalSize());
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

Result<Outcome> attendTerminal(Job& job, const supervisor::Signals& resized,
                               const std::string& id) {
  SizeRelay sizes(job.endpoint, id, job.signals, resized, TRY(Latch::make()), TRY(Latch::make()));
  const InputRelay input(job.endpoint, id, TRY(Latch::make()));
  net::BlockingClient client(job.endpoint, sizes.gone());
  return follow(job, client, id);
}

}  // namespace

void putTerminal(json::object& body) {
  body["tty"] = terminalSize();
  const char* term = ::getenv("TERM");
  if (term == nullptr || *term == '\0' || !base::isUtf8(term)) return;
  json::value& env = body["env"];
  if (!env.is_object()) env.emplace_object();
  if (!env.get_object().contains("TERM")) env.get_object()["TERM"] = term;
}

Result<> needTerminal(std::string_view flag) {
  if (isTerminal(STDIN_FILENO) && isTerminal(STDOUT_FILENO)) return {};
  const std::string name(flag);
  return fail(Code::kInvalid,
              (name.empty() ? "" : name + ": ") +
                  "this is not a terminal; `cloister exec SESSION -- COMMAND` needs none",
              name);
}

Result<Outcome> attend(Job& job, const std::string& id, bool more_input) {
  SignalRelay signals(job.endpoint, id, job.signals, TRY(Latch::make()), TRY(Latch::make()));
  std::optional<InputRelay> input;
  if (more_input) input.emplace(job.endpoint, id, TRY(Latch::make()));
  net::BlockingClient client(job.endpoint, signals.gone());
  Outcome ended = TRY(follow(job, client, id));
  if (signals.cancelled()) return kStatusInterrupted;
  return ended;
}

Result<Outcome> runHere(Job& job, bool more_input) {
  Outcome at = TRY(start(job));
  const json::object* accepted = std::get_if<json::object>(&at);
  if (accepted == nullptr || isDenied(*accepted)) return at;
  return attend(job, textOf(*accepted, "id"), more_input);
}

Result<Outcome> onTerminal(Job& job) {
  const supervisor::Signals resized = TRY(supervisor::Signals::block({SIGWINCH}));
  Outcome at = TRY(start(job));
  const json::object* accepted = std::get_if<json::object>(&at);
  if (accepted == nullptr || isDenied(*accepted)) return at;
  const std::string id = textOf(*accepted, "id");
  const RawTerminal raw = TRY(RawTerminal::enter());
  Result<Outcome> ended = attendTerminal(job, resized, id);
  const bool by_itself = ended && std::holds_alternative<json::object>(*ended) &&
                         textOf(std::get<json::object>(*ended), "status") == "completed";
  if (!by_itself) RawTerminal::tidy();
  return ended;
}

OwnSession::~OwnSession() {
  if (id_.empty()) return;
  net::BlockingClient client(endpoint_);
  (void)client.exchange({.method = "DELETE", .target = sessionTarget(id_)}, kPatience);
}

std::string OwnSession::execTarget() const {
  return sessionTarget(id_) + "/exec";
}

Result<std::optional<OwnSession>> makeSession(const net::Endpoint& endpoint,
                                              const json::object& body, int interrupt) {
  net::BlockingClient client(endpoint, interrupt);
  const json::object made = TRY(submit(client, {.target = "/v1/sessions", .body = body}));
  OwnSession own(endpoint, textOf(made, "id"));
  if (textOf(made, "status") == "blocked") return std::nullopt;
  return std::optional<OwnSession>(std::move(own));
}

}  // namespace cloister::cli

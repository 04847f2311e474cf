// SPDX-License-Identifier: Apache-2.0
#include "cli/relay.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "cli/api.h"
#include "cli/render/terminal.h"
#include "cli/run_body.h"
#include "model/execution.h"

namespace cloister::cli {
namespace {

constexpr size_t kMaxStdin = size_t{16} << 20;

constexpr size_t kPiece = 65'536;
constexpr Millis kPatience{5'000};

std::string targetOf(const std::string& id) {
  return "/v1/executions/" + net::percentEncode(id);
}

void complain(std::string_view doing, const Error& error) {
  writeTo(STDERR_FILENO, "cloister: " + std::string(doing) + ": " + error.message + "\n");
}

// False: `stop` came first.
bool waitFor(int fd, const Latch& stop) {
  for (;;) {
    pollfd polled[2] = {{fd, POLLIN, 0}, {stop.fd(), POLLIN, 0}};
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return false;
    if (polled[1].revents != 0) return false;
    if (polled[0].revents != 0) return true;
  }
}

// Appends the bytes of a ready descriptor; false at the end.
bool readSome(int fd, std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + kPiece);
  ssize_t n = -1;
  do {
    n = ::read(fd, bytes.data() + before, kPiece);
  } while (n < 0 && errno == EINTR);
  const bool later = n < 0 && errno == EAGAIN;
  bytes.resize(before + (n > 0 ? static_cast<size_t>(n) : 0));
  return n > 0 || later;
}

// An answer of 409: the program has ended, or takes no more.
Result<bool> taken(const net::HttpResponse& answer) {
  constexpr int kConflict = 409;
  if (answer.head.status == kConflict) return false;
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  return true;
}

}  // namespace

Result<Latch> Latch::make() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return failErrno("making an event descriptor");
  return Latch(std::move(fd));
}

void Latch::set() const {
  ::eventfd_write(fd_.get(), 1);
}

Result<FirstInput> firstInput() {
  FirstInput input;
  while (input.bytes.size() <= kPiece) {
    pollfd polled{STDIN_FILENO, POLLIN, 0};
    const int n = ::poll(&polled, 1, 0);
    if (n < 0 && errno != EINTR) return failErrno("reading stdin");
    if (n == 0) break;
    if (n > 0 && !readSome(STDIN_FILENO, input.bytes)) return input;
  }
  input.more = true;
  return input;
}

Result<std::string> readStdin(const supervisor::Signals& signals) {
  std::string text;
  char chunk[65'536];
  for (;;) {
    pollfd polled[2] = {{STDIN_FILENO, POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return failErrno("waiting for stdin");
    if (polled[1].revents != 0) return fail(Code::kUnavailable, "reading stdin: interrupted");
    if (polled[0].revents == 0) continue;
    const ssize_t n = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return text;
    text.append(chunk, static_cast<size_t>(n));
    if (text.size() > kMaxStdin) return fail(Code::kTooLarge, "reading stdin: more than 16 MiB");
  }
}

InputRelay::InputRelay(net::Endpoint endpoint, std::string id, Latch stop)
    : endpoint_(std::move(endpoint)),
      id_(std::move(id)),
      stop_(std::move(stop)),
      client_(endpoint_, stop_.fd()),
      thread_([this] { run(); }) {}

InputRelay::~InputRelay() {
  stop_.set();
  thread_.join();
}

void InputRelay::run() {
  for (;;) {
    const Result<bool> more = passOn();
    if (more && *more) continue;
    if (!more && !client_.interrupted()) {
      complain("passing on the input", more.error());
      net::BlockingClient client(endpoint_, stop_.fd());
      (void)client.exchange({.method = "DELETE", .target = targetOf(id_)}, kPatience);
    }
    return;
  }
}

Result<bool> InputRelay::passOn() {
  // The server may close an idle connection just at its next use. The fate of bytes sent then is
  // unknown.
  pollfd polled{STDIN_FILENO, POLLIN, 0};
  if (::poll(&polled, 1, 0) == 0) client_.close();
  if (!waitFor(STDIN_FILENO, stop_)) return false;
  std::string piece;
  if (readSome(STDIN_FILENO, piece)) return piece.empty() ? true : send(piece);
  return send("");
}

Result<bool> InputRelay::send(std::string_view piece) {
  constexpr Millis kAnyTime = std::chrono::hours(24 * 365);  // until the program reads the input
  json::object body;
  if (piece.empty()) {
    body["eof"] = true;
  } else {
    putBytes(body, "data", piece);
  }
  const std::string text = base::toJson(body);
  const net::HttpResponse answer = TRY(client_.exchange(
      {.method = "POST", .target = targetOf(id_) + "/input", .body = text}, kAnyTime));
  return TRY(taken(answer)) && !piece.empty();
}

SignalRelay::SignalRelay(net::Endpoint endpoint, std::string id, const supervisor::Signals& signals,
                         Latch stop, Latch gone)
    : endpoint_(std::move(endpoint)),
      id_(std::move(id)),
      signals_(signals),
      stop_(std::move(stop)),
      gone_(std::move(gone)),
      thread_([this] { run(); }) {}

SignalRelay::~SignalRelay() {
  stop_.set();
  thread_.join();
}

void SignalRelay::run() {
  while (waitFor(signals_.fd(), stop_)) {
    if (const int signal = signals_.take(); signal != 0 && signal != SIGPIPE) handle(signal);
  }
}

void SignalRelay::handle(int signal) {
  if (signal == SIGINT && ++interrupts_ > 1) {
    cancel();
    return;
  }
  net::BlockingClient client(endpoint_, stop_.fd());
  const std::string name = model::signalName(signal);
  const std::string text = base::toJson(json::object{{"signal", name}});
  const auto answer = client.exchange(
      {.method = "POST", .target = targetOf(id_) + ":signal", .body = text}, kPatience);
  const Result<bool> passed = answer ? taken(*answer) : std::unexpected(answer.error());
  if (!passed && !client.interrupted()) complain("passing on " + name, passed.error());
}

void SignalRelay::cancel() {
  if (interrupts_ == 2) {
    net::BlockingClient client(endpoint_, stop_.fd());
    if (client.exchange({.method = "DELETE", .target = targetOf(id_)}, kPatience)) return;
  }
  gone_.set();
}

}  // namespace cloister::cli

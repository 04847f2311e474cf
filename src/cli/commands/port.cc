// SPDX-License-Identifier: Apache-2.0
// `cloister port …`: servers that run in a session.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <list>
#include <thread>

#include "cli/commands/resources.h"
#include "cli/relay.h"
#include "cli/render/amounts.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "supervisor/listener.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int kMostConnections = 64;

struct Target {
  std::string path;  // "/v1/sessions/…/ports/8000"
  uint16_t port = 0;
};

Result<Target> targetOf(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  if (operands.size() < 2) {
    return fail(Code::kInvalid, "which port: give a session's id and a port's number");
  }
  Target target;
  const std::string& text = operands[1];
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), target.port);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || target.port == 0) {
    return fail(Code::kInvalid, "PORT: must be a whole number from 1 to 65535");
  }
  target.path = "/v1/sessions/" + net::percentEncode(operands[0]) + "/ports/" + text;
  return target;
}

// Bytes of one direction; read bytes wait until writable.
class Flow {
 public:
  Flow(int from, int to, std::string first) : from_(from), to_(to), held_(std::move(first)) {}

  [[nodiscard]] pollfd wants() const {
    if (!held_.empty()) return {to_, POLLOUT, 0};
    return {over_ ? -1 : from_, POLLIN, 0};
  }
  [[nodiscard]] bool over() const { return over_ && held_.empty(); }

  // False at the end.
  bool move() {
    if (held_.empty()) {
      held_.resize(65'536);
      const ssize_t n = ::recv(from_, held_.data(), held_.size(), MSG_DONTWAIT);
      held_.resize(n > 0 ? static_cast<size_t>(n) : 0);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      over_ = n == 0;
    }
    while (!held_.empty()) {
      const ssize_t n = ::send(to_, held_.data(), held_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      held_.erase(0, static_cast<size_t>(n));
    }
    if (over_) ::shutdown(to_, SHUT_WR);
    return true;
  }

 private:
  int from_;
  int to_;
  std::string held_;
  bool over_ = false;
};

void passBothWays(int here, int there, std::string first, int stop) {
  Flow in(here, there, {});
  Flow out(there, here, std::move(first));
  while (!out.over()) {
    pollfd fds[3] = {in.wants(), out.wants(), {stop, POLLIN, 0}};
    if (::poll(fds, 3, -1) < 0 && errno != EINTR) return;
    if (fds[2].revents != 0) return;
    if (fds[0].revents != 0 && !in.move()) return;
    if (fds[1].revents != 0 && !out.move()) return;
  }
}

Result<Fd> reach(net::BlockingClient& client, const Target& target, std::string& first) {
  const net::HttpHead head =
      TRY(client.open({.method = "GET",
                       .target = target.path,
                       .headers = {{"Connection", "Upgrade"}, {"Upgrade", "cloister-tcp"}}}));
  if (head.status == 101) return client.detach(first);
  std::string body;
  constexpr size_t kMost = 65'536;
  while (body.size() < kMost &&
         TRY(client.read(body, Millis(10'000))) == net::BlockingClient::Piece::kData) {
  }
  return std::unexpected(refusal(head, body));
}

// Accepts here, and carries each connection to the session, in a thread of its own.
class Forwarder {
 public:
  Forwarder(net::Endpoint endpoint, Target target, Latch stop)
      : endpoint_(std::move(endpoint)), target_(std::move(target)), stop_(std::move(stop)) {}
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;
  ~Forwarder() {
    stop_.set();
    for (Carried& carried : carried_)
      carried.thread.join();
  }

  void add(Fd here) {
    std::erase_if(carried_, [](Carried& carried) {
      if (carried.done) carried.thread.join();
      return carried.done.load();
    });
    if (carried_.size() >= kMostConnections) return;  // closes the connection
    Carried& carried = carried_.emplace_back();
    carried.thread = std::thread([this, &carried, fd = std::move(here)]() mutable {
      carry(fd);
      fd.reset();
      carried.done = true;
    });
  }

 private:
  struct Carried {
    std::thread thread;
    std::atomic<bool> done = false;
  };

  void carry(const Fd& here) {
    net::BlockingClient client(endpoint_, stop_.fd());
    std::string first;
    const Result<Fd> there = reach(client, target_, first);
    if (!there) {
      if (client.interrupted()) return;
      writeTo(STDERR_FILENO, "cloister: " + printable(there.error().message) + "\n");
      return;
    }
    passBothWays(here.get(), there->get(), std::move(first), stop_.fd());
  }

  net::Endpoint endpoint_;
  Target target_;
  Latch stop_;
  std::list<Carried> carried_;
};

Result<int> open(const Invocation& invocation) {
  const Target target = TRY(targetOf(invocation));
  std::string local = invocation.flags.text("local").value_or(std::to_string(target.port));
  if (!local.contains(':')) local.insert(0, "127.0.0.1:");
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  const net::Endpoint endpoint = TRY(needServer(invocation.globals));
  net::BlockingClient client(endpoint, signals.fd());
  const std::string session = invocation.flags.operands()[0];
  TRY(call(client, "GET", "/v1/sessions/" + net::percentEncode(session)));
  client.close();
  const Fd listener = TRY(supervisor::listenOn(local, Millis(0)));
  local = supervisor::addressOf(listener.get());
  if (invocation.globals.json) {
    printJson(json::object{{"local", local}, {"session", session}, {"port", target.port}});
  } else {
    writeTo(STDOUT_FILENO, "http://" + local + "/ is port " + std::to_string(target.port) + " of " +
                               printable(session) + "; Ctrl-C ends it\n");
  }
  Forwarder forwarder(endpoint, target, TRY(Latch::make()));
  for (;;) {
    pollfd fds[2] = {{listener.get(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return failErrno("waiting for connections");
    if (fds[1].revents != 0 && signals.take() != SIGPIPE) return 0;
    if (fds[0].revents == 0) continue;
    Fd here(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!here) continue;
    const int on = 1;
    ::setsockopt(here.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    forwarder.add(std::move(here));
  }
}

Result<int> link(const Invocation& invocation) {
  const Target target = TRY(targetOf(invocation));
  json::object body;
  if (const auto seconds = TRY(secondsFlag(invocation.flags, "expires"))) {
    body["expires_seconds"] = *seconds;
  }
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::object made = TRY(call(client, "POST", target.path + "/tokens", body));
  // A server that gives each port a host of its own answers with the whole URL.
  if (const std::string url = textOf(made, "url"); url.starts_with('/'))
    made["url"] = client.url().origin() + url;
  return showAnswer({.said = "{url}\n"}, invocation, made);
}

constexpr Flag kOpenFlags[] = {
    {.name = "local",
     .value = "[ADDRESS:]PORT",
     .help = "where to listen (default: 127.0.0.1, the same port)"},
};
constexpr Flag kLinkFlags[] = {
    {.name = "expires", .value = "TIME", .help = "how long it is good, as 10m (default 1h)"},
};

}  // namespace

const Command kPortOpen = {
    .name = "port open",
    .operands = "SESSION PORT",
    .max_operands = 2,
    .summary = "reach a server in a session from this machine",
    .details =
        "Listens here, and carries each connection to the server that listens on PORT of\n"
        "the session's own loopback: any protocol over TCP. Ctrl-C ends it.",
    .flags = kOpenFlags,
    .examples =
        "cloister exec $S --background -- python3 -m http.server 8000\n"
        "cloister port open $S 8000 --local 127.0.0.1:9000",
    .run = open,
};

const Command kPortLink = {
    .name = "port link",
    .operands = "SESSION PORT",
    .max_operands = 2,
    .summary = "make an expiring link to a server in a session",
    .details =
        "Whoever has the link reaches this port of this session, without a key, until it\n"
        "expires, or the session or the key that made it ends.",
    .flags = kLinkFlags,
    .examples = "curl $(cloister port link $S 8000 --expires 10m)",
    .run = link,
};

}  // namespace cloister::cli

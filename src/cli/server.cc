// SPDX-License-Identifier: Apache-2.0
#include "cli/server.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "cli/render/terminal.h"
#include "supervisor/process.h"
#include "supervisor/state_dir.h"

namespace cloister::cli {
namespace {

using base::monotonicNow;

std::optional<std::string> variable(const char* name) {
  const char* text = ::getenv(name);
  if (text == nullptr || *text == 0) return std::nullopt;
  return text;
}

Result<std::optional<std::string>> givenKey(const Globals& globals) {
  if (globals.key_file) return TRY(supervisor::readKey(*globals.key_file));
  return variable("CLOISTER_API_KEY");
}

Result<net::Endpoint> endpointOf(const std::string& url) {
  return net::Endpoint{TRY(net::parseBaseUrl(url)), net::Trust::fromEnvironment(), {}};
}

// The server of `dir`, without a key. Waits for the URL of a starting server; null without a
// server.
Result<std::optional<net::Endpoint>> localServer(const std::string& dir) {
  constexpr Millis kStarting{15'000};
  constexpr Millis kPause{10};
  const auto deadline = monotonicNow() + kStarting;
  while (supervisor::isHeld(dir)) {
    constexpr size_t kMost = 512;
    if (auto text = base::readFile(supervisor::addressPath(dir), kMost); text) {
      const std::string address = text->substr(0, text->find('\n'));
      net::Endpoint endpoint =
          TRY(endpointOf(address.contains("//") ? address : "http://" + address));
      if (endpoint.url.tls) endpoint.trust.pinned = supervisor::certificatePath(dir);
      return endpoint;
    }
    if (monotonicNow() >= deadline) {
      return fail(Code::kUnavailable, "finding the server of " + dir + ": it is not ready");
    }
    std::this_thread::sleep_for(kPause);
  }
  return std::optional<net::Endpoint>();
}

}  // namespace

bool isStructured(const base::Flags& flags) {
  const std::string format = flags.text("output").value_or("");
  return flags.has("json") || format == "json" || format == "yaml";
}

Result<std::optional<net::Endpoint>> findServer(const Globals& globals) {
  std::optional<std::string> key = TRY(givenKey(globals));
  const std::optional<std::string> named = globals.url ? globals.url : variable("CLOISTER_URL");
  const std::string dir = globals.state.value_or(base::defaultStateDir());
  if (named) {
    net::Endpoint endpoint = TRY(endpointOf(*named));
    const auto local = key && !endpoint.url.tls ? std::nullopt : TRY(localServer(dir));
    const bool same = local && local->url.authority() == endpoint.url.authority() &&
                      local->url.tls == endpoint.url.tls;
    if (same) {
      endpoint.trust = local->trust;
      if (!key) key = TRY(supervisor::readKey(supervisor::adminKeyPath(dir)));
    }
    endpoint.key = std::move(key).value_or("");
    return endpoint;
  }
  std::optional<net::Endpoint> local = TRY(localServer(dir));
  if (!local) return std::nullopt;
  local->key = key ? *key : TRY(supervisor::readKey(supervisor::adminKeyPath(dir)));
  return local;
}

Result<net::Endpoint> needServer(const Globals& globals) {
  auto found = TRY(findServer(globals));
  if (found) return *std::move(found);
  return fail(Code::kUnavailable,
              "finding a server: none runs on this account; start one with `cloister serve`, name "
              "the state "
              "directory of a running one with --state, or set CLOISTER_URL and CLOISTER_API_KEY");
}

Result<net::BlockingClient> connect(const Globals& globals, int interrupt) {
  return net::BlockingClient(TRY(needServer(globals)), interrupt);
}

Result<Service> anyServer(const Globals& globals, int interrupt) {
  Service service;
  if (auto found = TRY(findServer(globals)); found) {
    service.endpoint = *std::move(found);
    return service;
  }
  service.own.emplace(TRY(PrivateServer::launch(interrupt)));
  service.endpoint = service.own->endpoint();
  return service;
}

Result<PrivateServer> PrivateServer::launch(int interrupt) {
  PrivateServer server;
  TRY(server.launchIn(interrupt));
  return server;
}

Result<> PrivateServer::launchIn(int interrupt) {
  dir_ = variable("TMPDIR").value_or("/tmp") + "/cloister-XXXXXX";
  if (::mkdtemp(dir_.data()) == nullptr) return failErrno("making a directory in " + dir_);
  // As root the control plane runs as another user, who must be able to reach its own directories.
  if (::geteuid() == 0 && ::chmod(dir_.c_str(), 0711) != 0) return failErrno("opening " + dir_);
  Fd log(::memfd_create("cloister-log", MFD_CLOEXEC));
  if (!log) return failErrno("making a log");
  log_ = TRY(supervisor::moveUp(std::move(log)));
  supervisor::Pipe lifeline = TRY(supervisor::makePipe());
  supervisor::Pipe ready = TRY(supervisor::makePipe());
  supervisor::Program program;
  program.argv = {base::programDir() + "/cloister",
                  "serve",
                  "--private",
                  "--state",
                  dir_,
                  "--listen",
                  "127.0.0.1:0",
                  "--lifeline",
                  std::to_string(lifeline.read.get()),
                  "--ready-fd",
                  std::to_string(ready.write.get())};
  program.env = supervisor::environmentWithout({"CLOISTER_API_KEY", "CLOISTER_URL"});
  program.pass = {lifeline.read.get(), ready.write.get()};
  program.stderr_fd = log_.get();
  process_.pid = TRY(supervisor::start(program));
  lifeline_ = std::move(lifeline.write);
  ready.write.reset();

  constexpr int kPatienceMs = 60'000;
  pollfd polled[2] = {{ready.read.get(), POLLIN, 0}, {interrupt, POLLIN, 0}};
  while (::poll(polled, 2, kPatienceMs) < 0 && errno == EINTR) {
  }
  char text[256];
  const ssize_t n = polled[0].revents != 0 ? ::read(ready.read.get(), text, sizeof text) : 0;
  if (n <= 0 || text[n - 1] != '\n') {
    return fail(Code::kUnavailable, "starting a private server: " +
                                        (polled[1].revents != 0 ? "interrupted" : lastWords()));
  }
  endpoint_ = TRY(endpointOf("http://" + std::string(text, static_cast<size_t>(n) - 1)));
  endpoint_.key = TRY(supervisor::readKey(supervisor::adminKeyPath(dir_)));
  return {};
}

std::string PrivateServer::lastWords() const {
  constexpr off_t kMost = 4096;
  const off_t size = ::lseek(log_.get(), 0, SEEK_END);
  std::string text(static_cast<size_t>(std::min(size, kMost)), '\0');
  const ssize_t n = ::pread(log_.get(), text.data(), text.size(), std::max<off_t>(0, size - kMost));
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  while (text.ends_with('\n'))
    text.pop_back();
  return text.empty() ? "it said nothing" : "it ended:\n" + text;
}

PrivateServer::~PrivateServer() {
  lifeline_.reset();
  if (process_.pid > 0) {
    constexpr Millis kPatience{45'000};
    constexpr Millis kPause{2};
    const auto deadline = monotonicNow() + kPatience;
    while (::waitpid(process_.pid, nullptr, WNOHANG) == 0) {
      if (monotonicNow() >= deadline) ::kill(process_.pid, SIGKILL);
      std::this_thread::sleep_for(kPause);
    }
  }
  if (dir_.empty()) return;
  // A killed server's children may outlive the server for a moment.
  const auto deadline = monotonicNow() + Millis(5'000);
  while (supervisor::isHeld(dir_) && monotonicNow() < deadline)
    std::this_thread::sleep_for(Millis(2));
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
#include "supervisor/serve.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "model/config.h"
#include "net/blocking_client.h"
#include "supervisor/check.h"
#include "supervisor/listener.h"
#include "supervisor/sd_notify.h"
#include "supervisor/state_dir.h"
#include "supervisor/supervisor.h"

namespace cloister::supervisor {
namespace {

constexpr size_t kMaxCertificate = 65'536;
constexpr const char* kControl = "cloisterd";
constexpr const char* kNode = "cloister-node";
constexpr const char* kEgress = "cloister-egress";

// Removes a private server's files at every way out.
class StateGuard {
 public:
  explicit StateGuard(std::string dir) : dir_(std::move(dir)) {}
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;
  ~StateGuard() {
    std::error_code ignored;
    if (!dir_.empty()) std::filesystem::remove_all(dir_, ignored);
  }

 private:
  std::string dir_;
};

struct ServePlan {
  std::string state;
  std::string listen;
  std::string certificate;         // "": plain HTTP
  std::vector<std::string> flags;  // for every part

  // The URL of `address` for this account's commands.
  [[nodiscard]] std::string urlOf(const std::string& address) const {
    return (certificate.empty() ? "http://" : "https://") + reachable(address);
  }
};

Result<ServePlan> settle(const ServeOptions& options) {
  model::Config config;
  if (options.config) config = TRY(model::loadConfig(*options.config));
  ServePlan place;
  place.state = options.state.value_or(model::stateDir(config));
  if (place.state.empty()) return fail(Code::kInvalid, "--state: must not be empty", "--state");
  place.state = std::filesystem::absolute(place.state).lexically_normal().string();
  while (place.state.size() > 1 && place.state.ends_with('/'))
    place.state.pop_back();
  place.listen = options.listen.value_or(config.listen);
  place.certificate = config.tls.certificate;
  place.flags = {"--state", place.state};
  if (options.config) {
    const auto path = std::filesystem::absolute(*options.config).string();
    place.flags.insert(place.flags.end(), {"--config", path});
  }
  return place;
}

Program programOf(const std::string& name, const ServePlan& place, int lock) {
  Program program;
  program.argv = {base::programDir() + "/" + name};
  program.argv.insert(program.argv.end(), place.flags.begin(), place.flags.end());
  program.env = environmentWithout(protocolVariables());
  program.pass = {lock};
  return program;
}

// The node stops after the control plane.
Part nodePart(const ServePlan& place, int lock) {
  return {.name = kNode,
          .program = programOf(kNode, place, lock),
          .stop_turn = 1,
          .patience = Millis(10'000)};
}

// The network of sandboxes is there before the first sandbox, and stops after the last. A restart
// never waits long: until then no sandbox has a network.
Part egressPart(const ServePlan& place, const std::string& api, int lock) {
  Part part{.name = kEgress,
            .program = programOf(kEgress, place, lock),
            .stop_turn = 2,
            .patience = Millis(5'000),
            .longest_delay = Millis(500)};
  part.program.argv.insert(part.program.argv.end(), {"--api", api});
  return part;
}

// The control plane drains first, and reports a node without heartbeats.
Part controlPart(const ServeOptions& options, const ServePlan& place,
                 const std::vector<Fd>& listeners, int lock) {
  Part part{.name = kControl,
            .program = programOf(kControl, place, lock),
            .stop_turn = 0,
            .patience = Millis(30'000)};
  if (options.mcp_fixtures) part.program.argv.emplace_back("--mcp-conformance-fixtures");
  if (options.private_server) part.program.argv.emplace_back("--private");
  for (const Fd& listener : listeners)
    part.program.listeners.push_back(listener.get());
  part.watches = kNode;
  return part;
}

bool answersReady(const ServePlan& place, const std::string& address, int interrupt) {
  constexpr Millis kPatience{2'000};
  auto url = net::parseBaseUrl(place.urlOf(address));
  if (!url) return true;  // not TCP: the parts' own word is all there is
  net::Endpoint endpoint{*std::move(url), net::Trust::fromEnvironment(), {}};
  endpoint.trust.pinned = place.certificate;
  net::BlockingClient client(std::move(endpoint), interrupt);
  const auto answer = client.exchange({.method = "GET", .target = "/readyz"}, kPatience);
  return answer && answer->head.status == 200;
}

void writeAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

void greet(const ServePlan& place, const std::string& address) {
  const std::string command = clientCommand(place.state, base::defaultStateDir());
  std::string text = "Cloister is ready at " + place.urlOf(address) + "\n";
  text += "  admin key   " + adminKeyPath(place.state) + " (`" + command +
          "` on this account finds it)\n";
  text += "  web         " + place.urlOf(address) + "/ui/ (sign in with a key)\n";
  text += "  try         " + command + " run -c 'print(\"hello\")'\n";
  const std::string warning = plainHttpWarning(address, !place.certificate.empty());
  if (!warning.empty()) text += "  warning     " + warning + "\n";
  writeAll(STDERR_FILENO, text);
}

Result<> announce(const ServeOptions& options, const ServePlan& place, const std::string& address) {
  if (!place.certificate.empty()) {
    const std::string certificate = TRY(base::readFile(place.certificate, kMaxCertificate));
    TRY(base::writeFileAtomic(certificatePath(place.state), certificate, 0644));
  }
  const std::string shown = place.certificate.empty() ? reachable(address) : place.urlOf(address);
  TRY(base::writeFileAtomic(addressPath(place.state), shown + "\n", 0644));
  if (!options.private_server) greet(place, address);  // before anyone is told to go on
  if (options.ready_fd >= 0) {
    writeAll(options.ready_fd, reachable(address) + "\n");
    ::close(options.ready_fd);
  }
  return {};
}

}  // namespace

Result<> serve(const ServeOptions& options) {
  const ServePlan place = TRY(settle(options));
  if (options.private_server) base::skipSyncs();
  const StateGuard guard(options.private_server ? place.state : "");
  std::vector<Fd> listeners = TRY(takeListeners());
  constexpr Millis kPatience{10'000};
  const Fd lock = TRY(lockState(place.state, kPatience));
  if (listeners.empty()) listeners.push_back(TRY(listenOn(place.listen, kPatience)));
  const std::string address = addressOf(listeners.front().get());
  if (options.mcp_fixtures && !isLoopback(address)) {
    return fail(Code::kInvalid, "--mcp-conformance-fixtures: only on a loopback address, not " +
                                    address + "; anyone who connects may use them");
  }

  SupervisorConfig config;
  Part control = controlPart(options, place, listeners, lock.get());
  control.probe = [&](int interrupt) { return answersReady(place, address, interrupt); };
  config.parts = {egressPart(place, reachable(address), lock.get()), nodePart(place, lock.get()),
                  std::move(control)};
  config.lifeline = options.lifeline;
  config.on_ready = [&] { return announce(options, place, address); };
  Supervisor service = TRY(Supervisor::make(std::move(config)));
  const Result<> result = service.run();
  ::unlink(addressPath(place.state).c_str());
  return result;
}

}  // namespace cloister::supervisor

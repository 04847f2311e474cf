// SPDX-License-Identifier: Apache-2.0
// `cloister-egress`: the process that dials for sandboxes. As soon as its two sockets are open, the
// process becomes its own user, without capabilities, under its own system call filter, unreadable
// to other processes of this user. It can then open no file for writing, no further listening
// socket, and by Landlock few files for reading. It serves until SIGTERM, SIGINT or the end of its
// lifeline.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <boost/asio/io_context.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/flags.h"
#include "base/json.h"
#include "base/log.h"
#include "bin/dlp_rules.h"
#include "bin/stop_watch.h"
#include "egress/plan/own_names.h"
#include "egress/service/listen.h"
#include "egress/service/package_setup.h"
#include "egress/service/readable_files.h"
#include "egress/service/service.h"
#include "linux/credentials.h"
#include "linux/landlock.h"
#include "linux/netlink.h"
#include "linux/process.h"
#include "linux/seccomp.h"
#include "linux/users.h"
#include "model/config.h"

namespace cloister {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Flag;
using base::Flags;

constexpr Flag kFlags[] = {
    {.name = "state", .value = "DIR", .help = "the state directory"},
    {.name = "config", .value = "FILE", .help = "the configuration"},
    {.name = "check", .value = "", .help = "judge the configuration, and serve nothing"},
    {.name = "api", .value = "ADDR", .help = "host:port of the API, for the tier api"},
    {.name = "lifeline", .value = "FD", .help = "end at this descriptor's end of file"},
    {.name = "ready-fd", .value = "FD", .help = "write a line here when connections are taken"},
    {.name = "help", .value = "", .help = "print this", .letter = 'h'},
};

constexpr std::string_view kUsage =
    "usage: cloister-egress [--state DIR] [--config FILE] [--api ADDR] [--lifeline FD]\n"
    "                       [--ready-fd FD]\n"
    "       cloister-egress --check [--config FILE]\n"
    "`cloister serve` starts it; by hand only for diagnosis.\n";

// Of the state directory. cloisterd makes them too: whoever is first.
constexpr char kKeyDirectory[] = "/keys";
constexpr mode_t kKeyDirectoryMode = 0755;
constexpr char kKeyFile[] = "/keys/permit.pub";

// The uid and gid when started as root without an existing `egress.user`. The next one above
// cloisterd's is the scanner's (bin/scan.cc).
constexpr uint32_t kFallbackUser = model::kFallbackId + 2;

struct Options {
  bool help = false;
  bool check = false;
  model::Config config;
  std::string state;
  std::string api;
  int lifeline = -1;
  int ready_fd = -1;
};

Result<Options> parseOptions(const std::vector<std::string>& arguments) {
  constexpr int64_t kMostFds = 1 << 20;
  const Flags flags = TRY(Flags::parse(kFlags, arguments));
  Options options;
  options.help = flags.has("help");
  options.check = flags.has("check");
  if (const auto path = flags.text("config")) options.config = TRY(model::loadConfig(*path));
  options.state = flags.text("state").value_or(model::stateDir(options.config));
  options.api = flags.text("api").value_or(options.config.listen);
  options.lifeline = static_cast<int>(TRY(flags.integer("lifeline", 3, kMostFds)).value_or(-1));
  options.ready_fd = static_cast<int>(TRY(flags.integer("ready-fd", 3, kMostFds)).value_or(-1));
  if (!flags.operands().empty()) return fail(Code::kInvalid, "no such command; see --help");
  return options;
}

// The users of the three processes.
struct Users {
  linux::User control;
  linux::User own;
};

Result<Users> findUsers(const model::Config& config) {
  if (::geteuid() != 0) {
    const linux::User self{::geteuid(), ::getegid()};
    return Users{self, self};
  }
  const auto named = linux::findUser(config.egress.user);
  if (named && named->uid == 0) {
    return fail(Code::kInvalid, "egress.user: must not be root", "egress.user");
  }
  const Users users{linux::serviceUser(config.user, model::kFallbackId),
                    linux::serviceUser(config.egress.user, kFallbackUser)};
  if (users.own.uid == 0) return users;  // a user namespace with one id
  if (users.own.uid == users.control.uid) {
    return fail(Code::kInvalid, "egress.user: must differ from `user`", "egress.user");
  }
  return users;
}

// Makes the directory of the sockets as the node makes it: whoever is first.
Result<> makeRunDirectory(const std::string& path, linux::User control) {
  constexpr mode_t kMode = 0750;
  TRY(base::makeDirs(path, kMode));
  const gid_t group = ::geteuid() == 0 ? control.gid : ::getegid();
  if (::lchown(path.c_str(), ::geteuid(), group) != 0) return failErrno("giving away " + path);
  if (::chmod(path.c_str(), kMode) != 0) return failErrno("setting the mode of " + path);
  return {};
}

// The control plane's key, read at each connection: another user owns the directories above, so an
// open directory is the way to the file.
std::function<Result<base::VerifyKey>()> keyReader(const std::string& state) {
  const auto directory =
      std::make_shared<Fd>(::open(state.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return [directory]() -> Result<base::VerifyKey> {
    constexpr size_t kMostKey = 128;
    const Fd file(::openat(directory->get(), kKeyFile + 1, O_RDONLY | O_CLOEXEC));
    if (!file) return failErrno("opening the control plane's key, keys/permit.pub");
    char bytes[kMostKey];
    const ssize_t size = ::read(file.get(), bytes, sizeof bytes);
    if (size < 0) return failErrno("reading the control plane's key");
    std::string_view text(bytes, static_cast<size_t>(size));
    while (text.ends_with('\n') || text.ends_with('\r'))
      text.remove_suffix(1);
    return base::VerifyKey::fromBase64(text);
  };
}

egress::Settings settingsOf(const model::EgressSettings& from) {
  egress::Settings settings;
  settings.pool = from.pool;
  settings.ask = std::chrono::seconds(from.ask_seconds);
  settings.idle = std::chrono::seconds(from.idle_seconds);
  settings.connections_per_second = from.connections_per_second;
  settings.open_connections = from.open_connections;
  settings.attempts_kept = from.attempts_kept;
  return settings;
}

// This service's own API, for the tier api. Nothing for an address that is no "IP:PORT".
void addApi(const std::string& api, egress::DialOptions& options) {
  const size_t colon = api.rfind(':');
  if (colon == std::string::npos) return;
  std::string host = api.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  const int port = std::atoi(api.c_str() + colon + 1);
  if (error || port <= 0 || port > UINT16_MAX) return;
  options.own.emplace(egress::kApiName, tcp::endpoint(address, static_cast<uint16_t>(port)));
}

Result<egress::DialOptions> dialOptions(const Options& options) {
  const model::EgressSettings& from = options.config.egress;
  egress::DialOptions dial;
  dial.addresses.pool = TRY(base::Network::parse(from.pool));
  // An address whose state is unknown counts as the host's.
  const auto ours = std::make_shared<linux::LocalAddresses>();
  dial.addresses.isOurs = [ours](const base::Address& address) {
    return ours->contains(address).value_or(true);
  };
  if (!from.upstream.empty()) {
    dial.upstream =
        TRY(egress::readUpstream(from.upstream, from.upstream_credentials_file, from.ca_file));
  }
  dial.origins = TRY(egress::readOrigins(from.ca_file));
  addApi(options.api, dial);
  return dial;
}

Result<egress::ServiceConfig> serviceConfig(const Options& options, const Users& users) {
  egress::ServiceConfig config;
  config.settings = settingsOf(options.config.egress);
  config.settings.dlp = TRY(dlpRules(options.config.dlp, model::DlpPlace::kEgress));
  config.resolver.servers = options.config.egress.resolver;
  config.dial = TRY(dialOptions(options));
  config.gateway = TRY(egress::prepareGateway(
      options.config.packages, options.config.layers.advisories_seconds, options.config.egress));
  config.control_uid = users.control.uid;
  config.node_uid = ::geteuid();
  config.key = keyReader(options.state);
  config.last_batch = static_cast<uint64_t>(std::max<int64_t>(0, base::wallMicros()));
  return config;
}

// Credentials and the authorities of the configuration are read before.
std::vector<linux::LandlockRule> readableFiles(const Options& options) {
  egress::ReadableFiles files{.key = options.state + kKeyFile,
                              .host_resolver = options.config.egress.resolver.empty()};
  for (const auto* source : {&options.config.packages.pypi, &options.config.packages.npm}) {
    if (source->index.starts_with('/')) files.folders.push_back(source->index);
  }
  const std::string& advisories = options.config.packages.advisories;
  if (!advisories.empty()) files.folders.push_back(advisories);
  return egress::readableFiles(files);
}

// Drops all privileges not needed for serving. No thread may have been started.
Result<> confine(linux::User user, const linux::SeccompProgram& seccomp,
                 const std::vector<linux::LandlockRule>& readable) {
  TRY(linux::setResourceLimit({RLIMIT_CORE, 0}));
  TRY(linux::setNoNewPrivs());
  TRY(linux::restrictWithLandlock(linux::landlockAbi(), readable));
  TRY(linux::dropTo(user.uid, user.gid));
  TRY(linux::hideMemory());
  return linux::installSeccomp(seccomp.filter);
}

// An io_context that can drop pending handlers while the objects used by the handlers still exist.
struct IoContext : asio::io_context {
  using asio::execution_context::shutdown;
  using asio::io_context::io_context;
};

void sayReady(int fd) {
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, "ready\n", 6);
  ::close(fd);
}

Result<> serve(const Options& options) {
  // A connection takes two descriptors, or four with a proxy over TLS; a door up to 18.
  constexpr size_t kDescriptors = 131'072;
  linux::raiseDescriptors(kDescriptors);
  const Users users = TRY(findUsers(options.config));
  const auto seccomp = TRY(linux::loadSeccomp(base::shareDir() + "/policies/seccomp/egress.json"));
  const std::string run = options.state + "/run";
  TRY(makeRunDirectory(run, users.control));
  TRY(base::makeDirs(options.state + kKeyDirectory, kKeyDirectoryMode));
  egress::ServiceConfig config = TRY(serviceConfig(options, users));
  const uint32_t group = ::geteuid() == 0 ? users.control.gid : egress::kSameGroup;
  Fd control = TRY(egress::listenUnix(run + "/egress.sock", SOCK_STREAM, group));
  Fd node = TRY(egress::listenUnix(run + "/egress-node.sock", SOCK_SEQPACKET));
  IoContext io(1);
  TRY(confine(users.own, seccomp, readableFiles(options)));
  const auto service = TRY(egress::Service::start(io.get_executor(), std::move(config),
                                                  std::move(control), std::move(node)));
  const StopWatch watch(io, options.lifeline, [&io](std::string_view why) {
    base::log(base::Level::kInfo, "stopping", {{"why", why}});
    io.stop();
  });
  sayReady(options.ready_fd);
  io.run();
  io.shutdown();
  return {};
}

// The answer for `cloister serve --check` (supervisor/check.h).
Result<> check(const Options& options) {
  const auto users = findUsers(options.config);
  const auto config = users ? serviceConfig(options, *users) : std::unexpected(users.error());
  if (config) return {};
  const base::json::object answer{{"error", config.error().message}, {"key", config.error().field}};
  std::puts(base::toJson(answer).c_str());
  return std::unexpected(config.error());
}

Result<> run(const std::vector<std::string>& arguments) {
  const Options options = TRY(parseOptions(arguments));
  if (options.help) {
    std::fputs(kUsage.data(), stdout);
    return {};
  }
  return options.check ? check(options) : serve(options);
}

}  // namespace
}  // namespace cloister

int main(int argc, char** argv) {
  cloister::base::initLog("cloister-egress");
  cloister::linux::askForSlice(cloister::linux::kServiceSlice);
  std::signal(SIGPIPE, SIG_IGN);
  const auto result = cloister::run({argv + 1, argv + argc});
  if (result) return 0;
  cloister::base::log(cloister::base::Level::kError, "ended", {{"error", result.error().message}});
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// `cloister-node`: the process that owns the sandboxes of this machine, and acts only on signed
// permits.
//
// Order: unneeded privileges go first, so that no child has the privileges; then the sandbox host
// is forked, while this process has one thread and nothing open; only then come the io_context and
// the socket.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>

#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/version.h"
#include "linux/credentials.h"
#include "linux/process.h"
#include "linux/users.h"
#include "model/config.h"
#include "model/language.h"
#include "model/offer_json.h"
#include "node/image_source.h"
#include "node/languages.h"
#include "node/layer_store.h"
#include "node/privileges.h"
#include "node/server.h"
#include "sandbox/door/doors.h"
#include "sandbox/gvisor/gvisor.h"
#include "sandbox/host/image_digest.h"
#include "sandbox/host/own_cache.h"
#include "sandbox/microvm/microvm.h"
#include "sandbox/process_runtime.h"

namespace cloister {
namespace {

namespace asio = boost::asio;
using base::Flag;
using base::Flags;
using model::Finding;

constexpr Flag kFlags[] = {
    {.name = "state", .value = "DIR", .help = "the state directory"},
    {.name = "config", .value = "FILE", .help = "the configuration"},
    {.name = "lifeline", .value = "FD", .help = "end at this descriptor's end of file"},
    {.name = "ready-fd", .value = "FD", .help = "write a line here when connections are taken"},
    {.name = "help", .value = "", .help = "print this", .letter = 'h'},
};

constexpr std::string_view kUsage =
    "usage: cloister-node [--state DIR] [--config FILE] [--lifeline FD] [--ready-fd FD]\n"
    "       cloister-node image-digest [--config FILE]\n"
    "       cloister-node findings [--config FILE]\n"
    "`cloister serve` starts it; by hand only for diagnosis.\n";

constexpr std::string_view kImageDigest = "image-digest";
constexpr std::string_view kFindings = "findings";

struct Options {
  bool help = false;
  std::string command;  // "": serve
  model::Config config;
  std::string state;
  int lifeline = -1;
  int ready_fd = -1;
};

Result<Options> parseOptions(const std::vector<std::string>& arguments) {
  constexpr int64_t kMostFds = 1 << 20;
  const Flags flags = TRY(Flags::parse(kFlags, arguments));
  Options options;
  options.help = flags.has("help");
  if (const auto path = flags.text("config")) options.config = TRY(model::loadConfig(*path));
  options.state = flags.text("state").value_or(model::stateDir(options.config));
  options.lifeline = static_cast<int>(TRY(flags.integer("lifeline", 3, kMostFds)).value_or(-1));
  options.ready_fd = static_cast<int>(TRY(flags.integer("ready-fd", 3, kMostFds)).value_or(-1));
  if (flags.operands().empty()) return options;
  options.command = flags.operands().front();
  const bool known = options.command == kImageDigest || options.command == kFindings;
  if (!known || flags.operands().size() > 1) {
    return fail(Code::kInvalid, "no such command; see --help");
  }
  return options;
}

// The command for a program of a single file without arguments.
std::vector<std::string> commandOf(const model::Language& language) {
  std::vector<std::string> argv;
  for (const std::string& argument : language.run) {
    if (argument != "{args}") argv.push_back(argument == "{source}" ? language.source : argument);
  }
  return argv;
}

// Commands of languages whose programs may be started ahead.
std::vector<runtime::LanguageCommand> languageCommands(const model::LanguageSet& languages) {
  std::vector<runtime::LanguageCommand> commands;
  for (const model::Language& language : languages.all()) {
    if (!language.prestart) continue;
    runtime::LanguageCommand command{
        language.name, commandOf(language), {}, language.prestart_text};
    for (const auto& [name, value] : language.prestart_env)
      command.ahead_env.push_back(name + "=" + value);
    commands.push_back(std::move(command));
  }
  return commands;
}

// Interpreters that can run as zygotes: zygote/python.py turns `python` into a zygote.
std::vector<runtime::ZygoteConfig> zygoteConfigs(const model::LanguageSet& languages) {
  std::vector<runtime::ZygoteConfig> configs;
  for (const model::Language& language : languages.all()) {
    if (language.zygote.empty()) continue;
    runtime::ZygoteConfig config;
    config.argv = commandOf(language);
    config.imports = language.zygote;
    config.library = base::programDir() + "/cloister-zygote-" + language.name + ".so";
    config.preparation = base::shareDir() + "/languages/zygote/" + language.name + ".py";
    configs.push_back(std::move(config));
  }
  return configs;
}

runtime::DiskConfig diskConfig(const Options& options) {
  const model::Config::Workspace::Disk& from = options.config.workspace.disk;
  return {.directory = from.directory.empty() ? options.state : from.directory,
          .over_bytes = from.over_mb << 20,
          .max_bytes = from.max_mb << 20,
          .keep_free_bytes = from.keep_free_mb << 20};
}

runtime::ProcessConfig processConfig(const Options& options, const model::LanguageSet& languages) {
  const model::Config& from = options.config;
  const model::NodeSettings& node = from.node;
  runtime::ProcessConfig config;
  config.node = node.name;
  config.runner = base::programDir() + "/cloister-runner";
  config.spawner = base::programDir() + "/cloister-spawner";
  config.seccomp_policy = base::shareDir() + "/policies/seccomp/sandbox.json";
  config.disk = diskConfig(options);
  config.image_root = node.image_root;
  config.image_idle = std::chrono::seconds(from.images.idle_seconds);
  config.require_verified = from.images.require_verified;
  config.read_after = std::chrono::seconds(from.images.read_after_seconds);
  config.verify_every = std::chrono::seconds(from.images.verify_seconds);
  config.cgroup_parent = node.cgroup_parent;
  config.uid_base = node.uid_base;
  config.max_sandboxes = node.max_sandboxes;
  config.lock_watch.most = node.file_locks;
  config.runner_patience = std::chrono::seconds(node.runner_seconds);
  config.spawn_patience = config.runner_patience * 3 / 2;
  config.ready = from.pool.ready;
  config.ready_idle = std::chrono::milliseconds(from.pool.idle_ms);
  config.ready_floor = from.pool.floor;
  config.pressure.spare_memory = from.pool.spare_memory_percent;
  config.pressure.cpu_pressure = from.pool.cpu_pressure_percent;
  config.languages = languageCommands(languages);
  config.interpreters = zygoteConfigs(languages);
  config.zygotes = from.pool.zygotes;
  config.zygote_copies = from.pool.zygote_copies;
  config.zygote_per_tenant = from.pool.zygote_per_tenant;
  return config;
}

runtime::GvisorConfig gvisorConfig(const model::Config& from) {
  return {from.gvisor.runsc, from.gvisor.ready, uint64_t{from.gvisor.overhead_mb} << 20,
          base::programDir() + "/cloister-guest"};
}

runtime::MicrovmConfig microvmConfig(const Options& options) {
  const model::MicrovmSettings& from = options.config.microvm;
  return {.vmm = from.vmm,
          .qemu = from.qemu,
          .firecracker = from.firecracker,
          .libkrun = from.libkrun,
          .image = from.image.empty() ? base::shareDir() + "/microvm" : from.image,
          .image_root = options.config.node.image_root,
          .accelerator = from.accelerator,
          .emulate = from.emulate,
          .probe_seconds = from.probe_seconds,
          .ready = from.ready,
          .templates = from.templates,
          .overhead_bytes = uint64_t{from.overhead_mb} << 20,
          .programs = base::programDir(),
          .policies = base::shareDir() + "/policies/seccomp"};
}

void detectLanguages(const model::LanguageSet& languages, const std::string& image_root,
                     model::NodeOffer& offer) {
  for (const model::Language& language : languages.all()) {
    const std::string lacking = node::lackingPath(language, image_root);
    Finding finding{
        .area = "language", .name = language.name, .detail = language.title, .remedy = {}};
    if (lacking.empty()) {
      offer.languages.push_back(language.name);
    } else {
      finding.state = Finding::State::kMissing;
      finding.detail = language.title + ": no " + lacking;
      finding.remedy = language.install;
    }
    offer.findings.push_back(std::move(finding));
  }
}

model::NodeOffer makeOffer(const Options& options, const model::LanguageSet& languages,
                           const runtime::ProcessHost& host, std::vector<Finding> guests) {
  model::NodeOffer offer;
  offer.node = options.config.node.name;
  offer.version = base::version();
  offer.max_sandboxes = options.config.node.max_sandboxes;
  offer.cpus = std::max(1u, std::thread::hardware_concurrency());
  offer.memory_bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  runtime::describe(host, offer);
  std::ranges::move(guests, std::back_inserter(offer.findings));
  detectLanguages(languages, options.config.node.image_root, offer);
  return offer;
}

node::ServerConfig serverConfig(const Options& options, model::NodeOffer offer) {
  node::ServerConfig config;
  config.socket = options.state + "/run/node.sock";
  config.key_path = options.state + "/keys/permit.pub";
  config.control_silence = std::chrono::seconds(options.config.node.control_silence_seconds);
  config.control_uid = ::geteuid();
  if (::geteuid() == 0) {
    const linux::User user = linux::serviceUser(options.config.user, model::kFallbackId);
    config.control_uid = user.uid;
    config.control_gid = user.gid;
  }
  config.offer = std::move(offer);
  return config;
}

// Makes the directory of the socket, accessible only to the control plane.
Result<> makeRunDirectory(const Options& options, const node::ServerConfig& config) {
  const std::string path = options.state + "/run";
  const gid_t group = config.control_gid == UINT32_MAX ? ::getegid() : config.control_gid;
  TRY(base::makeDirs(path, 0750));
  if (::lchown(path.c_str(), ::geteuid(), group) != 0) return failErrno("giving away " + path);
  if (::chmod(path.c_str(), 0750) != 0) return failErrno("setting the mode of " + path);
  return {};
}

// An io_context that can drop pending handlers while the objects used by the handlers still exist.
struct IoContext : asio::io_context {
  using asio::execution_context::shutdown;
  using asio::io_context::io_context;
};

// Ends `io` when no process has the other end of the pipe open any more.
class Lifeline {
 public:
  Lifeline(asio::io_context& io, int fd) : pipe_(io) {
    if (fd < 0) return;
    pipe_.assign(fd);
    pipe_.async_read_some(asio::buffer(byte_), [&io](boost::system::error_code, size_t) {
      base::log(base::Level::kInfo, "stopping", {{"why", "the supervisor is gone"}});
      io.stop();
    });
  }

 private:
  asio::posix::stream_descriptor pipe_;
  char byte_[1] = {};
};

void sayReady(int fd) {
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, "ready\n", 6);
  ::close(fd);
}

// The store of dependency layers, made if it is missing; "" without a place for it, and without an
// index of packages.
std::string layersPath(const model::Config& config) {
  if (config.packages.ecosystems().empty()) return {};
  const std::string images = images::storeDir(config.node.images);
  if (images.empty()) return {};
  std::string path = images + "/layers";
  if (auto made = base::makeDirs(path, 0755); !made) {
    base::log(base::Level::kWarn, "no dependency layers", {{"reason", made.error().message}});
    return {};
  }
  return path;
}

std::shared_ptr<runtime::LayerSource> layerStore(asio::io_context& io, const model::Config& config,
                                                 const std::string& path) {
  if (path.empty()) return nullptr;
  return std::make_shared<node::LayerStore>(
      io.get_executor(),
      node::LayerStoreConfig{.directory = path,
                             .importer = base::programDir() + "/cloister-image",
                             .max_bytes = uint64_t{config.node.layers_mb} << 20});
}

// Adds the guests of this machine to `config`, and returns what was found.
std::vector<Finding> findGuests(const Options& options, runtime::ProcessConfig& config) {
  std::vector<Finding> findings;
  for (const auto& found : {runtime::findGvisor(gvisorConfig(options.config)),
                            runtime::findMicrovm(microvmConfig(options))}) {
    if (found.guest) config.guests.push_back(found.guest);
    findings.push_back(found.finding);
  }
  return findings;
}

// For `cloister doctor` without a server: the offer that this node would make, as JSON. Serves
// nothing, and leaves nothing.
Result<> printFindings(const Options& options) {
  const auto languages = TRY(model::LanguageSet::load(base::shareDir() + "/languages"));
  runtime::ProcessConfig config = processConfig(options, languages);
  std::vector<Finding> guests = findGuests(options, config);
  const auto host = runtime::surveyProcessHost(config);
  const auto offer = makeOffer(options, languages, *host, std::move(guests));
  std::puts(base::toJson(model::offerJson(offer)).c_str());
  return {};
}

Result<> serve(const Options& options) {
  // A sandbox takes some 15 descriptors with cgroup v1, and a shell's limit is 1024.
  constexpr size_t kDescriptors = 65'536;
  linux::raiseDescriptors(kDescriptors);
  const auto languages = TRY(model::LanguageSet::load(base::shareDir() + "/languages"));
  runtime::ProcessConfig process_config = processConfig(options, languages);
  std::vector<Finding> guests = findGuests(options, process_config);
  const std::string layers_path = layersPath(options.config);
  if (!layers_path.empty()) process_config.layers = layers_path;
  const auto host = TRY(runtime::startProcessHost(process_config));
  IoContext io(1);
  const auto images = std::make_shared<node::StoredImages>(
      images::Store(images::storeDir(options.config.node.images)), languages);
  const auto doors =
      std::make_shared<runtime::Doors>(io.get_executor(), options.state + "/run/egress-node.sock");
  doors->start();
  const auto process = runtime::makeProcessRuntime(io.get_executor(), host, images,
                                                   {doors, options.config.egress.pool},
                                                   layerStore(io, options.config, layers_path));
  node::PermitGate gate(options.config.limits);
  node::ServerConfig config =
      serverConfig(options, makeOffer(options, languages, *host, std::move(guests)));
  TRY(makeRunDirectory(options, config));
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&io](boost::system::error_code, int) { io.stop(); });
  const Lifeline lifeline(io, options.lifeline);
  Result<> result;
  std::map<std::string, runtime::Runtime*> runtimes = {{"process", process.get()}};
  for (const auto& guest : process_config.guests)
    runtimes[guest->name()] = process.get();
  asio::co_spawn(io, node::serve(std::move(config), gate, std::move(runtimes)),
                 [&](const std::exception_ptr&, Result<> ended) {
                   result = std::move(ended);
                   io.stop();
                 });
  // Queued after the coroutine's first step, which begins to listen.
  asio::post(io, [&] {
    if (result) sayReady(options.ready_fd);
  });
  io.run();
  io.shutdown();
  return result;
}

Result<> printImageDigest(const std::string& image_root) {
  const std::string cache = runtime::imageCachePath(image_root);
  const auto content =
      TRY(runtime::readImage(image_root, cache, {.threads = std::thread::hardware_concurrency()}));
  for (const std::string& path : content.changed)
    std::fprintf(stderr, "changed: %s\n", path.c_str());
  if (content.digest.empty()) return fail(Code::kUnavailable, "the image kept changing");
  std::puts(content.digest.c_str());
  return {};
}

Result<> run(const std::vector<std::string>& arguments) {
  const Options options = TRY(parseOptions(arguments));
  if (options.help) {
    std::fputs(kUsage.data(), stdout);
    return {};
  }
  TRY(node::dropPrivileges(base::shareDir() + "/policies/seccomp/node.json"));
  runtime::preferCache(options.state + "/cache");
  if (options.command == kImageDigest) return printImageDigest(options.config.node.image_root);
  if (options.command == kFindings) return printFindings(options);
  return serve(options);
}

}  // namespace
}  // namespace cloister

int main(int argc, char** argv) {
  cloister::base::initLog("cloister-node");
  cloister::linux::askForSlice(cloister::linux::kServiceSlice);
  const auto result = cloister::run({argv + 1, argv + argc});
  if (result) return 0;
  cloister::base::log(cloister::base::Level::kError, "ended", {{"error", result.error().message}});
  return 1;
}

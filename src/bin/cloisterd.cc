// SPDX-License-Identifier: Apache-2.0
// `cloisterd`: the control plane. The control plane parses clients' input, so the process has no
// privilege. As soon as its sockets, keys and data files are open, the process becomes its own
// user, without capabilities, under its own system call filter, unreadable to other processes of
// this user. The control plane serves until SIGTERM, SIGINT or the end of its lifeline.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include "api/compat/compat.h"
#include "api/http/http_server.h"
#include "api/http/router.h"
#include "api/mcp/definitions.h"
#include "api/mcp/hosted_servers.h"
#include "api/mcp/server.h"
#include "api/metrics.h"
#include "api/rest/rest.h"
#include "api/ui/ui.h"
#include "artifacts/blobs.h"
#include "artifacts/tenant_cipher.h"
#include "async/spawn.h"
#include "audit/root_keeper.h"
#include "auth/auth.h"
#include "auth/sign_in.h"
#include "base/file.h"
#include "base/flags.h"
#include "base/json.h"
#include "base/log.h"
#include "base/version.h"
#include "bin/admin_key.h"
#include "bin/blob_store.h"
#include "bin/channels.h"
#include "bin/config_check.h"
#include "bin/deciding.h"
#include "bin/scan.h"
#include "bin/settings.h"
#include "bin/state_dir.h"
#include "bin/stop_watch.h"
#include "fixtures/mcp_conformance.h"
#include "linux/credentials.h"
#include "linux/process.h"
#include "linux/seccomp.h"
#include "linux/users.h"
#include "model/config.h"
#include "model/language.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/node_link.h"
#include "orchestrator/deps/layer_builder.h"
#include "orchestrator/deps/layer_service.h"
#include "orchestrator/egress/doors.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/runs/run_service.h"
#include "orchestrator/sessions/sessions.h"
#include "policy/command/filter.h"
#include "store/anchor.h"
#include "store/open.h"
#include "store/store.h"
#include "trace/otlp/exporter.h"

namespace cloister {
namespace {

namespace asio = boost::asio;
using base::Flag;
using base::Flags;
using base::Level;

constexpr Flag kFlags[] = {
    {.name = "state", .value = "DIR", .help = "the state directory"},
    {.name = "config", .value = "FILE", .help = "the configuration"},
    {.name = "check", .value = "", .help = "judge the configuration, and serve nothing"},
    {.name = "listen", .value = "ADDR", .help = "host:port or unix:/path", .many = true},
    {.name = "lifeline", .value = "FD", .help = "end at this descriptor's end of file"},
    {.name = "ready-fd", .value = "FD", .help = "write the address here when it listens"},
    {.name = "hung-fd", .value = "FD", .help = "write the node's pid here when it hangs"},
    {.name = "private", .value = "", .help = "sync nothing: the state goes with the service"},
    {.name = "mcp-conformance-fixtures", .value = "", .help = "for the official MCP suite only"},
    {.name = "help", .value = "", .help = "print this", .letter = 'h'},
};

constexpr std::string_view kUsage =
    "usage: cloisterd [--state DIR] [--config FILE] [--listen ADDR]... [--lifeline FD]\n"
    "                 [--ready-fd FD] [--private]\n"
    "       cloisterd --check [--config FILE]\n"
    "`cloister serve` starts it; by hand only for diagnosis.\n";

struct Options {
  bool help = false;
  bool check = false;
  bool keeps_nothing = false;
  bool mcp_fixtures = false;
  model::Config config;
  std::string state;
  std::vector<std::string> listen;
  int lifeline = -1;
  int ready_fd = -1;
  int hung_fd = -1;
};

Result<Options> parseOptions(const std::vector<std::string>& arguments) {
  constexpr int64_t kMostFds = 1 << 20;
  const Flags flags = TRY(Flags::parse(kFlags, arguments));
  Options options;
  options.help = flags.has("help");
  options.check = flags.has("check");
  options.keeps_nothing = flags.has("private");
  options.mcp_fixtures = flags.has("mcp-conformance-fixtures");
  if (const auto path = flags.text("config")) options.config = TRY(model::loadConfig(*path));
  options.state = flags.text("state").value_or(model::stateDir(options.config));
  options.listen = flags.all("listen");
  if (options.listen.empty()) options.listen = {options.config.listen};
  options.lifeline = static_cast<int>(TRY(flags.integer("lifeline", 3, kMostFds)).value_or(-1));
  options.ready_fd = static_cast<int>(TRY(flags.integer("ready-fd", 3, kMostFds)).value_or(-1));
  options.hung_fd = static_cast<int>(TRY(flags.integer("hung-fd", 3, kMostFds)).value_or(-1));
  if (!flags.operands().empty()) return fail(Code::kInvalid, "no such command; see --help");
  return options;
}

// --- files read while still permitted

struct Data {
  std::string admin_secret;
  std::shared_ptr<const base::SigningKey> audit_key;
  base::SigningKey permit_key;
  std::vector<artifacts::Secret> master_keys;
  std::optional<artifacts::S3Credentials> s3;
  model::LanguageSet languages;
  orchestrator::StartDocument policy;
  policy::Levels levels;
  model::ToolSet tools;
  api::ToolPrograms tool_programs;
  api::ui::Files ui;
  std::string openapi;
  std::string mcp;
  linux::SeccompProgram seccomp;
};

Result<base::SigningKey> readKey(const std::string& path) {
  return base::SigningKey::fromBase64(TRY(readLine(path)));
}

Result<Data> readData(const Options& options) {
  const std::string share = base::shareDir();
  const std::string policy_path = options.config.policy.document.empty()
                                      ? share + "/policies/default.yaml"
                                      : options.config.policy.document;
  std::string policy = TRY(readSetting("policy", options.config.policy.document, policy_path));
  const std::string levels = TRY(
      readSetting("agents.levels", options.config.agents.levels, share + "/policies/levels.yaml"));
  auto known_levels = TRY(policy::parseLevels(levels, "levels"));
  TRY(checkDefaultLevel(options.config, known_levels));
  TRY(checkAdvisories(options.config.packages.advisories));
  auto audit_key = TRY(readKey(options.state + "/keys/audit.key"));
  auto languages = TRY(model::LanguageSet::load(share + "/languages"));
  languages.setWithNetwork(model::packageEnvironment(options.config.packages.ecosystems()));
  return Data{
      .admin_secret = TRY(readLine(options.state + "/admin.key")),
      .audit_key = std::make_shared<const base::SigningKey>(std::move(audit_key)),
      .permit_key = TRY(readKey(options.state + "/keys/permit.key")),
      .master_keys = TRY(artifacts::readMasterKeys(masterKeyFile(options.config, options.state))),
      .s3 = TRY(readS3Credentials(options.config)),
      .languages = std::move(languages),
      .policy = {.name = std::filesystem::path(policy_path).stem().string(),
                 .text = std::move(policy),
                 .chosen = !options.config.policy.document.empty()},
      .levels = std::move(known_levels),
      .tools = TRY(readTools(options.config)),
      .tool_programs = TRY(readToolPrograms()),
      .ui = TRY(api::ui::Files::read(share + "/web")),
      .openapi = TRY(base::readFile(share + "/spec/openapi.yaml")),
      .mcp = TRY(base::readFile(share + "/spec/mcp.json")),
      .seccomp = TRY(linux::loadSeccomp(share + "/policies/seccomp/cloisterd.json")),
  };
}

// Drops all privileges not needed for serving. No thread may have been started.
Result<> confine(const Options& options, const linux::SeccompProgram& seccomp) {
  const linux::User user = TRY(serviceUser(options.config));
  TRY(linux::setResourceLimit({RLIMIT_CORE, 0}));
  TRY(linux::dropTo(user.uid, user.gid));
  TRY(checkReach(options.state, std::to_string(user.uid)));
  TRY(linux::hideMemory());
  return linux::installSeccomp(seccomp.filter);
}

// --- where things are

std::string checkpointFile(const Options& options) {
  const std::string& configured = options.config.audit.checkpoint_file;
  return configured.empty() ? options.state + "/ledger/audit.checkpoints" : configured;
}

std::string anchorFile(const Options& options) {
  const std::string& configured = options.config.audit.anchor_file;
  return configured.empty() ? options.state + "/ledger/audit.anchor" : configured;
}

// The encryption of the ledger. Its keys differ from the artifacts' keys, which are deleted with a
// tenant's artifacts; the master key is the same.
Result<std::shared_ptr<artifacts::TenantCipher>> openCipher(const Options& options,
                                                            const Data& data) {
  const std::string keys = options.state + "/ledger/keys";
  TRY(base::makeDirs(keys, 0700));
  auto keyring = TRY(artifacts::Keyring::open(keys, data.master_keys));
  return std::make_shared<artifacts::TenantCipher>(std::move(keyring));
}

Result<std::unique_ptr<store::Store>> openStore(const Options& options, const Data& data) {
  store::SqliteOptions sqlite;
  sqlite.cipher = TRY(openCipher(options, data));
  sqlite.path = options.state + "/ledger/ledger.db";
  sqlite.durability = options.config.durability == model::Durability::kPower
                          ? store::Durability::kPower
                          : store::Durability::kProcess;
  sqlite.audit_key = data.audit_key;
  sqlite.checkpoint_file = checkpointFile(options);
  sqlite.checkpoint_every = options.config.audit.checkpoint_every;
  sqlite.anchor_file = anchorFile(options);
  sqlite.published_file = publishedFile(options.config);
  sqlite.anchor_max_bytes = uint64_t{options.config.audit.anchor_max_kb} << 10;
  return store::openSqlite(sqlite);
}

// An io_context that can drop pending handlers while the objects used by the handlers still exist.
struct IoContext : asio::io_context {
  using asio::execution_context::shutdown;
  using asio::io_context::io_context;
};

// Ends the work of a pool before the objects made earlier, which the work uses.
struct PoolEnd {
  explicit PoolEnd(asio::thread_pool& of) : pool(of) {}
  PoolEnd(const PoolEnd&) = delete;
  PoolEnd& operator=(const PoolEnd&) = delete;
  ~PoolEnd() {
    pool.stop();
    pool.join();
  }
  asio::thread_pool& pool;
};

// The ledger, the files that its records name, and the roots of its audit log.
struct Stored {
  std::unique_ptr<store::Store> ledger;
  std::unique_ptr<artifacts::Keyring> keyring;
  BlobStore blobs;
  std::unique_ptr<orchestrator::BlobKeeper> keeper;
  std::unique_ptr<audit::RootKeeper> roots;
};

Result<Stored> openStored(const Options& options, const Data& data, IoContext& io,
                          asio::thread_pool& background) {
  auto ledger = TRY(openStore(options, data));
  TRY(enrolAdminKey(*ledger, data.admin_secret));
  const std::string dir = options.state + "/blobs";
  auto keyring = TRY(artifacts::Keyring::open(dir, data.master_keys));
  auto blobs =
      TRY(openBlobStore(options.config, data.s3, *keyring, dir, io.get_executor(), background));
  auto keeper = TRY(orchestrator::BlobKeeper::open(io.get_executor(), *ledger, *blobs.blobs));
  auto roots =
      std::make_unique<audit::RootKeeper>(*ledger, *data.audit_key, rootSettings(options.config));
  return Stored{std::move(ledger), std::move(keyring), std::move(blobs), std::move(keeper),
                std::move(roots)};
}

// --- serving

// Sockets from systemd or the supervisor; sd_listen_fds(3).
std::vector<Fd> takeListeners() {
  constexpr int kFirst = 3;
  const char* pid = ::getenv("LISTEN_PID");
  const char* count = ::getenv("LISTEN_FDS");
  std::vector<Fd> listeners;
  if (pid != nullptr && count != nullptr && std::atol(pid) == ::getpid()) {
    for (int fd = kFirst; fd < kFirst + std::atoi(count); ++fd)
      listeners.emplace_back(fd);
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"})
    ::unsetenv(name);
  return listeners;
}

// The addresses listened on, in the order of the listeners.
Result<std::vector<std::string>> openListeners(api::HttpServer& server, const Options& options) {
  std::vector<std::string> addresses;
  for (Fd& listener : takeListeners())
    addresses.push_back(TRY(server.adopt(std::move(listener))));
  const bool given = !addresses.empty();
  for (const std::string& address : given ? std::vector<std::string>() : options.listen)
    addresses.push_back(TRY(server.listen(address)));
  if (const std::string& e2b = options.config.compat.e2b.listen; !e2b.empty()) {
    addresses.push_back(TRY(server.listen(e2b, "e2b")));
    base::log(Level::kInfo, "listening", {{"address", addresses.back()}, {"interface", "e2b"}});
  }
  if (options.mcp_fixtures && !server.allLocal()) {
    return fail(Code::kInvalid,
                "--mcp-conformance-fixtures: anyone who connects may use them, so every listener "
                "must be a loopback address");
  }
  return addresses;
}

api::Task<void> stopInOrder(IoContext& io, api::HttpServer& server,
                            orchestrator::RunService& service, orchestrator::Sessions& sessions,
                            api::mcp::Server& mcp, trace::otlp::Exporter* tracer) {
  constexpr Millis kAnswers{5'000};
  constexpr Millis kSpans{2'000};
  co_await server.stop(Millis(0));  // no new requests
  mcp.stop();
  co_await sessions.drain();       // every session has its record
  co_await service.drain();        // and every run
  co_await server.stop(kAnswers);  // and every waiting client its answer
  if (tracer != nullptr) co_await tracer->drain(kSpans);
  io.stop();
}

void sayReady(int fd, const std::string& address) {
  base::log(Level::kInfo, "listening", {{"address", address}});
  if (fd < 0) return;
  ::dprintf(fd, "%s\n", address.c_str());
  ::close(fd);
}

Result<std::unique_ptr<api::mcp::Server>> openMcp(IoContext& io, api::RestParts& parts,
                                                  const Data& data, const Options& options) {
  const api::mcp::Settings settings = mcpSettings(options.config.mcp);
  auto mcp = TRY(api::mcp::Server::make(io.get_executor(), parts,
                                        api::mcp::fillIn(data.mcp, parts, settings), settings));
  if (options.mcp_fixtures) mcp->offer(fixtures::mcpConformance());
  return mcp;
}

std::vector<api::Route> allRoutes(api::RestParts& parts, api::mcp::Server& mcp,
                                  std::vector<api::compat::Facade>& facades, api::ui::UiParts& ui) {
  auto routes = api::restRoutes(parts);
  std::ranges::move(api::ui::uiRoutes(ui), std::back_inserter(routes));
  std::ranges::move(mcp.routes(), std::back_inserter(routes));
  for (api::compat::Facade& facade : facades)
    std::ranges::move(facade.routes, std::back_inserter(routes));
  return routes;
}

std::vector<const api::Dialect*> dialectsOf(const std::vector<api::compat::Facade>& facades) {
  std::vector<const api::Dialect*> dialects;
  for (const api::compat::Facade& facade : facades)
    dialects.push_back(facade.dialect.get());
  return dialects;
}

// Reports a hanging node to the supervisor, which ends the node's process.
runtime::Silence silenceOf(const Options& options) {
  const auto hung = [fd = options.hung_fd](pid_t node) {
    if (fd >= 0 && node > 0) ::dprintf(fd, "%d\n", node);
  };
  return {std::chrono::seconds(options.config.node.silence_seconds), hung};
}

// Runs from `start` to the requested end.
void untilStopped(IoContext& io, api::HttpServer& server, orchestrator::Nodes& nodes,
                  orchestrator::RunService& service, orchestrator::Sessions& sessions,
                  api::mcp::Server& mcp, trace::otlp::Exporter* tracer, const Options& options,
                  const std::function<void()>& start) {
  bool stopping = false;
  const StopWatch watch(io, options.lifeline, [&](std::string_view why) {
    if (stopping) return io.stop();  // second request: stop at once
    stopping = true;
    base::log(Level::kInfo, "stopping", {{"why", why}});
    async::spawn(io.get_executor(), stopInOrder(io, server, service, sessions, mcp, tracer));
  });
  async::spawn(io.get_executor(), orchestrator::keepConnected(
                                      nodes, options.state + "/run/node.sock", silenceOf(options)));
  start();
  io.run();
}

// Sets the API's configuration and data.
void setUp(const Options& options, const Data& data, api::RestParts& parts) {
  parts.checkpoint_file = checkpointFile(options);
  parts.anchor_file = anchorFile(options);
  if (const auto lines = store::readAnchor(parts.anchor_file)) {
    parts.audit_losses = store::lossesText(store::anchored(*lines));
  }
  if (parts.audit_losses.empty()) parts.audit_losses = parts.store.publishedLoss();
  parts.state = options.state;
  parts.bounds = requestBounds(options.config);
  parts.session_bounds = sessionBounds(options.config);
  parts.memory_bounds = options.config.session.memory;
  parts.metrics_open = options.config.metrics.open;
  parts.ports_domain = options.config.ports.domain;
  parts.answer_within = std::chrono::seconds(options.config.session.answer_seconds);
  parts.heartbeat = std::chrono::seconds(options.config.http.heartbeat_seconds);
  parts.openapi = data.openapi;
  parts.version = base::version();
  parts.explain_command = [&levels = data.levels](const base::json::object& command) {
    return policy::explainCommand(levels, command);
  };
  parts.agents_per_tenant = options.config.agents.per_tenant;
  parts.secrets_per_tenant = options.config.secrets.per_tenant;
  parts.tools = &data.tools;
  parts.compat = options.config.compat;
  parts.tool_programs = data.tool_programs;
}

void startExports(IoContext& io, trace::otlp::Exporter* tracer, api::ServiceMetrics& metrics) {
  if (tracer == nullptr) return;
  tracer->start(io.get_executor(), [&metrics](uint64_t exported, uint64_t dropped) {
    metrics.spans(exported, dropped);
  });
}

// Serves the API until told to stop.
Result<> answerAll(IoContext& io, api::HttpServer& server, orchestrator::Nodes& nodes,
                   api::RestParts& parts, const Data& data, const Options& options,
                   trace::otlp::Exporter* tracer, const BlobStore& blobs,
                   const std::string& address) {
  setUp(options, data, parts);
  startExports(io, tracer, parts.metrics);
  parts.certificate_expires = [&server] { return server.certificateExpires(); };
  if (blobs.bucket != nullptr) {
    parts.bucket = [bucket = blobs.bucket] { return bucket->look(); };
    async::spawn(io.get_executor(), sweepRegularly(*blobs.bucket));
  }
  api::mcp::HostedServers hosted(io.get_executor(), parts,
                                 hostedSettings(options.config.mcp.servers));
  parts.mcp_servers = &hosted;
  const auto mcp = TRY(openMcp(io, parts, data, options));
  auto facades = api::compat::facades(parts);
  api::ui::UiParts ui{.rest = parts, .files = data.ui};
  api::Router router(allRoutes(parts, *mcp, facades, ui), parts.authenticator, parts.metrics,
                     requestsPerTenant(options.config), dialectsOf(facades));
  router.servePorts(api::hostPortRoute(parts));
  router.trace(tracer);
  router.onLook([&mcp] { mcp->lookAtCredentials(); });
  parts.authenticator.onChange([&] {
    // Connections first: a WebSocket of an ended program closes with code 1000.
    server.lookAtCredentials();
    parts.service.lookAtCredentials();
  });
  untilStopped(io, server, nodes, parts.service, parts.sessions, *mcp, tracer, options, [&] {
    server.start(router);
    parts.roots->start();
    sayReady(options.ready_fd, address);
  });
  blobs.blobs->stop();
  io.shutdown();
  return {};
}

// Makes the parts that all services share.
Result<std::shared_ptr<orchestrator::Control>> makeControl(
    IoContext& io, asio::thread_pool& background, store::Store& store, const Data& data,
    orchestrator::PolicyEngine& engine, orchestrator::Metrics& metrics,
    orchestrator::Quotas* quotas, orchestrator::Network& network, trace::Tracer* tracer,
    const model::Config& config) {
  return std::make_shared<orchestrator::Control>(
      io.get_executor(),
      orchestrator::ControlParts{background, store, data.languages, engine, data.permit_key,
                                 metrics, &data.levels, quotas, tracer, &network},
      TRY(controlConfig(config)));
}

Result<std::shared_ptr<orchestrator::LayerService>> openLayers(orchestrator::Control& control,
                                                               orchestrator::Sessions& sessions,
                                                               orchestrator::RunService& service,
                                                               const model::Config& config) {
  auto maker = orchestrator::layerMaker(sessions, service.programs(), buildBounds(config));
  return orchestrator::LayerService::open(control, std::move(maker), layerConfig(config));
}

// Other services that this one asks or tells. Their files are read while the process may.
struct Peers {
  auth::Provider provider;
  Channels channels;
  std::unique_ptr<Deciding> by;
  std::shared_ptr<trace::otlp::Exporter> tracer;
};

Result<Peers> openPeers(IoContext& io, const model::Config& config) {
  return Peers{.provider = TRY(auth::openProvider(io.get_executor(), config.auth.oidc)),
               .channels = TRY(openChannels(config)),
               .by = TRY(openDeciding(io.get_executor(), config)),
               .tracer = TRY(trace::otlp::openExporter(config.traces, base::version()))};
}

Result<> serve(const Options& options) {
  const model::Config& config = options.config;
  const ScanParts scan = TRY(prepareScan(options.config));
  IoContext io(1);
  api::HttpServer server(io.get_executor(), TRY(httpLimits(config)), webNames(config),
                         TRY(api::ServerTls::open(config.tls)));
  TRY(prepareState(options.config, options.state));
  const Data data = TRY(readData(options));
  const auto addresses = TRY(openListeners(server, options));
  const auto [provider, channels, by, tracer] = TRY(openPeers(io, config));
  TRY(confine(options, data.seccomp));
  asio::thread_pool background(2);
  auto [store, keyring, blobs, keeper, roots] = TRY(openStored(options, data, io, background));
  api::ServiceMetrics metrics;
  const auto scanner = makeScanner(io.get_executor(), scan, config);
  orchestrator::AgentGuard agents(*store, data.levels, data.languages, config.agents.default_level);
  const auto quotas = TRY(orchestrator::Quotas::open(quotaConfig(config), store->quotas()));
  const model::RequestBounds bounds = requestBounds(config);  // the pool's threads read the bounds
  const PoolEnd background_end(background);
  orchestrator::Doors doors(io.get_executor(), {*store, data.permit_key, *by->engine, metrics});
  const auto control = TRY(makeControl(io, background, *store, data, *by->engine, metrics,
                                       quotas.get(), doors, tracer.get(), config));
  orchestrator::RunService service(control, {*keeper, scanner.get(), &agents},
                                   TRY(runConfig(config)));
  orchestrator::PolicyService policies(
      control, {by->current, data.levels, bounds, *by->engine, &agents}, policyConfig(config));
  TRY(policies.open(data.policy));
  TRY(service.recover());
  orchestrator::Sessions sessions(control, service.programs(), service.approvals(), &agents,
                                  sessionConfig(config));
  TRY(sessions.recover());
  const auto layers = TRY(openLayers(*control, sessions, service, config));
  Telling telling(control, service, &agents, channels, metrics, doors);
  doors.start(options.state + "/run/egress.sock");
  auth::Authenticator authenticator(*store, TRY(authOptions(config, provider)));
  orchestrator::ArtifactService artifacts(control, *keeper, *keyring,
                                          artifactConfig(config, quotas.get()), scanner.get());
  orchestrator::SnapshotService snapshots(io.get_executor(), background, *store, *keeper, sessions,
                                          snapshotConfig(config, quotas.get()));
  api::RestParts parts{.service = service,
                       .sessions = sessions,
                       .artifacts = artifacts,
                       .port_links = {*keyring, *store},
                       .cursors = orchestrator::Cursors(*keyring),
                       .snapshots = snapshots,
                       .escalations = telling.service,
                       .store = *store,
                       .authenticator = authenticator,
                       .languages = data.languages,
                       .metrics = metrics,
                       .audit_key = *data.audit_key,
                       .notified = telling.shown,
                       .background = background,
                       .agents = &agents,
                       .policies = &policies,
                       .layers = layers.get(),
                       .roots = roots.get()};
  return answerAll(io, server, control->nodes, parts, data, options, tracer.get(), blobs,
                   addresses.front());
}

// The answer for `cloister serve --check` (supervisor/check.h).
Result<> check(const Options& options) {
  const auto user = serviceUser(options.config);
  auto good = user ? judgeConfig(options.config) : std::unexpected(user.error());
  if (!good) {
    const base::json::object answer{{"error", good.error().message}, {"key", good.error().field}};
    std::puts(base::toJson(answer).c_str());
  }
  return good;
}

Result<> run(const std::vector<std::string>& arguments) {
  const Options options = TRY(parseOptions(arguments));
  if (options.help) {
    std::fputs(kUsage.data(), stdout);
    return {};
  }
  if (options.check) return check(options);
  if (options.keeps_nothing) base::skipSyncs();
  return serve(options);
}

}  // namespace
}  // namespace cloister

int main(int argc, char** argv) {
  cloister::base::initLog("cloisterd");
  cloister::linux::askForSlice(cloister::linux::kServiceSlice);
  std::signal(SIGPIPE, SIG_IGN);
  const auto result = cloister::run({argv + 1, argv + argc});
  if (result) return 0;
  cloister::base::log(cloister::base::Level::kError, "ended", {{"error", result.error().message}});
  return 1;
}

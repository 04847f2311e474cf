// SPDX-License-Identifier: Apache-2.0
#include "model/session.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/clock.h"
#include "base/id.h"
#include "model/capability.h"
#include "model/snapshot.h"

namespace cloister::model {
namespace {

namespace json = base::json;

struct StatusRow {
  SessionStatus status;
  std::string_view name;
};
constexpr std::array<StatusRow, 5> kStatuses = {{{SessionStatus::kCreating, "creating"},
                                                 {SessionStatus::kRunning, "running"},
                                                 {SessionStatus::kEnded, "ended"},
                                                 {SessionStatus::kBlocked, "blocked"},
                                                 {SessionStatus::kPaused, "paused"}}};

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::value timeOrNull(int64_t wall_micros) {
  return textOrNull(base::formatTime(wall_micros));
}

double seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

json::value toSeconds(std::chrono::milliseconds time) {
  if (time.count() % 1000 == 0) return time.count() / 1000;
  return seconds(time);
}

json::object toObject(const std::map<std::string, std::string>& map) {
  json::object object;
  for (const auto& [name, value] : map)
    object[name] = value;
  return object;
}

json::object provenanceOf(const Provenance& p) {
  return {{"runtime", textOrNull(p.runtime)},
          {"node", textOrNull(p.node)},
          {"image", textOrNull(p.image)},
          {"image_digest", textOrNull(p.image_digest)},
          {"policy_id", textOrNull(p.policy_id)},
          {"permit_id", textOrNull(p.permit_id)},
          {"weakened", json::array(p.weakened.begin(), p.weakened.end())}};
}

json::object idleOf(std::chrono::milliseconds pause_after) {
  return {{"pause_after_seconds", toSeconds(pause_after)}};
}

json::object usageOf(const Session& session) {
  json::object usage = toJsonObject(session.usage);
  usage.erase("wall_ms");
  usage.erase("open_files");  // of its programs
  usage["memory_bytes"] = session.status == SessionStatus::kEnded ? 0 : session.usage.memory_bytes;
  return usage;
}

std::unexpected<Error> invalid(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

}  // namespace

std::string_view statusName(SessionStatus status) {
  return kStatuses.at(static_cast<size_t>(status)).name;
}

std::optional<SessionStatus> sessionStatusFromName(std::string_view name) {
  const auto* const at = std::ranges::find(kStatuses, name, &StatusRow::name);
  if (at == kStatuses.end()) return std::nullopt;
  return at->status;
}

bool mayBecome(SessionStatus from, SessionStatus to) {
  if (from == SessionStatus::kEnded || to == SessionStatus::kBlocked) return false;
  if (from == SessionStatus::kPaused || to == SessionStatus::kPaused) return false;
  const bool blocked = from == SessionStatus::kBlocked;
  return blocked ? to != SessionStatus::kRunning : to != SessionStatus::kCreating;
}

std::vector<std::string> beyondScope(const Session& session,
                                     const std::vector<std::string>& needs) {
  std::vector<std::string> missing;
  const auto& scope = session.capabilities;
  for (const std::string& need : needs) {
    if (!scope.empty() && std::ranges::find(scope, need) == scope.end()) missing.push_back(need);
  }
  return missing;
}

json::object toJsonObject(const Session& session) {
  json::object object;
  object["id"] = session.id;
  object["name"] = textOrNull(session.name);
  object["status"] = statusName(session.status);
  object["language"] = textOrNull(session.language);
  object["limits"] = limitsObject(session.limits);
  object["env"] = toObject(session.env);
  object["cwd"] = session.cwd.empty() ? "/workspace" : session.cwd;
  object["network_policy"] = toJsonObject(session.network);
  if (!session.deps.empty()) object["deps"] = json::array(session.deps.begin(), session.deps.end());
  object["nested"] = session.nested;
  object["from_snapshot"] = textOrNull(session.from_snapshot);
  object["metadata"] = session.metadata;
  object["capabilities"] = nullptr;
  if (const auto& scope = session.capabilities; !scope.empty())
    object["capabilities"] = json::array(scope.begin(), scope.end());
  object["ttl_seconds"] = toSeconds(session.ttl);
  object["idle_ttl_seconds"] = toSeconds(session.idle_ttl);
  if (session.pause_after.count() > 0) object["idle"] = idleOf(session.pause_after);
  object["executions_running"] = session.running;
  object["resource_usage"] = usageOf(session);
  object["provenance"] = provenanceOf(session.provenance);
  object["principal"] = toJsonObject(session.principal);
  object["error"] = nullptr;
  if (session.error) object["error"] = toJsonObject(*session.error);
  object["end_reason"] = nullptr;
  if (session.end) object["end_reason"] = toJsonObject(*session.end);
  object["created_at"] = timeOrNull(session.created_at);
  object["last_used_at"] = timeOrNull(session.last_used_at);
  object["expires_at"] = timeOrNull(session.expires_at);
  object["ended_at"] = timeOrNull(session.ended_at);
  return object;
}

json::object shownTo(const Principal& who, const Session& session) {
  json::object shown = toJsonObject(session);
  const auto whom = [](const Principal& p) { return std::tie(p.tenant, p.app, p.agent, p.user); };
  if (who.isAdmin() || whom(who) == whom(session.principal)) return shown;
  for (auto& variable : shown["env"].get_object())
    variable.value() = nullptr;
  return shown;
}

namespace {

constexpr std::chrono::milliseconds kShortestTtl{1'000};
constexpr size_t kMaxCwd = 4095;  // PATH_MAX, less the final NUL

Result<std::chrono::milliseconds> readTtl(base::ObjectReader& reader, std::string_view name,
                                          std::chrono::milliseconds otherwise,
                                          std::chrono::milliseconds max) {
  constexpr double kAny = 1e12;
  const auto value = TRY(reader.number(name, 0, kAny));
  if (!value) return otherwise;
  const std::string field = reader.pathOf(name);
  if (*value < seconds(kShortestTtl)) return invalid(field, "must be at least 1 second");
  if (*value > seconds(max)) {
    return invalid(field, "at most " + std::to_string(max.count() / 1000) +
                              " seconds are allowed; ask for less, or raise "
                              "session.max_ttl_seconds in the server's configuration");
  }
  return std::chrono::milliseconds(static_cast<int64_t>(*value * 1000));
}

// `idle`: {"pause_after_seconds"}
Result<std::chrono::milliseconds> readIdle(base::ObjectReader& reader,
                                           std::chrono::milliseconds max) {
  const json::object* idle = TRY(reader.object("idle"));
  if (idle == nullptr) return std::chrono::milliseconds(0);
  base::ObjectReader inner(*idle, "idle");
  const auto after = TRY(readTtl(inner, "pause_after_seconds", {}, max));
  TRY(inner.finish());
  return after;
}

Result<std::string> readCwd(base::ObjectReader& reader, std::string otherwise) {
  const auto cwd = TRY(reader.text("cwd"));
  if (!cwd) return otherwise;
  const std::string field = reader.pathOf("cwd");
  if (!cwd->starts_with('/')) return invalid(field, "must be an absolute path");
  if (cwd->size() > kMaxCwd) {
    return fail(Code::kTooLarge, field + ": at most 4095 bytes are allowed", field);
  }
  const auto control = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(*cwd, control)) {
    return invalid(field, "must not contain control characters");
  }
  return *cwd;
}

// A network without the capability to use the network is a mistake.
Result<std::vector<std::string>> readScope(base::ObjectReader& reader, const RunRequest& settings) {
  auto scope = TRY(readCapabilities(reader, "capabilities")).value_or(std::vector<std::string>{});
  const bool has = std::ranges::find(scope, capability::kNetwork) != scope.end();
  if (scope.empty() || has || settings.network.tier == "none") return scope;
  return invalid("capabilities", "has no network, and network_policy.tier is \"" +
                                     settings.network.tier +
                                     "\"; add network, or leave the tier out");
}

Result<std::string> readSnapshot(base::ObjectReader& reader) {
  const auto id = TRY(reader.text("from_snapshot"));
  if (!id || base::isId(kSnapshotPrefix, *id)) return id.value_or("");
  return invalid("from_snapshot", "must be the id of a snapshot, as in GET /v1/snapshots");
}

// Default limits of an exec. The processor time follows the exec's own wall time, unless the
// session has an explicit value.
Limits limitsUnasked(const Session& session) {
  Limits limits = session.limits;
  Limits derived = limits;
  derived.cpu_time = {};
  settle(derived);
  if (limits.cpu_time == derived.cpu_time) limits.cpu_time = {};
  return limits;
}

// The limits fixed with the session, without the limits of each program.
LimitSet ofTheSandbox() {
  LimitSet named;
  named.set();
  for (const std::string_view own : {limit_name::kWall, limit_name::kCpuTime, limit_name::kOutput})
    named.reset(limitIndex(own));
  return named;
}

// The sandbox's limits were fixed with the session: no program has less or more of them; a program
// with a separate sandbox may have less.
Result<> checkShared(const Limits& asked, const Limits& session, const RunRequest& run) {
  struct Row {
    std::string_view name;
    uint64_t asked;
    uint64_t has;
    uint64_t unit;
  };
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::array<Row, 7> rows = {{
      {limit_name::kMemory, asked.memory_bytes, session.memory_bytes, kMiB},
      {limit_name::kCpuMillis, asked.cpu_millis, session.cpu_millis, 1},
      {limit_name::kDisk, asked.disk_bytes, session.disk_bytes, kMiB},
      {limit_name::kInodes, asked.inodes, session.inodes, 1},
      {limit_name::kFileSize, asked.file_bytes, session.file_bytes, kMiB},
      {limit_name::kOpenFiles, asked.open_files, session.open_files, 1},
      {limit_name::kPids, asked.pids, session.pids, 1},
  }};
  for (const Row& row : rows) {
    const bool of_fresh =
        run.fresh && std::ranges::find(kFreshLimits, row.name) != kFreshLimits.end();
    const bool may_be_less = run.nested || of_fresh;
    if (row.asked == row.has || (may_be_less && row.asked < row.has)) continue;
    if (may_be_less) {
      return invalid(std::string(row.name), "is the session's at most, " +
                                                std::to_string(row.has / row.unit) +
                                                "; ask for less, or make a session with " +
                                                std::to_string(row.asked / row.unit));
    }
    return invalid(std::string(row.name),
                   "is the session's, " + std::to_string(row.has / row.unit) +
                       ", for all of its programs; leave it out, or make a session with " +
                       std::to_string(row.asked / row.unit));
  }
  return {};
}

// A program uses the network of its session, and none in a sandbox of its own. An absent `allow`
// means the session's entries.
Result<> checkNetwork(const json::object& body, const RunRequest& run, const Session& session) {
  const json::value* value = body.if_contains("network_policy");
  if (value == nullptr || !value->is_object()) return {};
  if (run.fresh || run.nested) {
    if (run.network.tier == kNetworkTiers[0]) return {};
    return invalid(
        "network_policy.tier",
        "must be none: a program in a sandbox of its own within a session has no network; "
        "leave it out");
  }
  if (run.network.tier != session.network.tier) {
    return invalid("network_policy.tier",
                   "must be the session's, \"" + session.network.tier + "\"; leave it out");
  }
  if (!run.network.allow.empty() && run.network.allow != session.network.allow) {
    return invalid(
        "network_policy.allow",
        "must be the session's, for all of its programs; leave it out, or make a session "
        "with these entries");
  }
  const bool named = value->get_object().contains("on_denied");
  if (!named || run.network.on_denied == session.network.on_denied) return {};
  return invalid("network_policy.on_denied",
                 "must be the session's, \"" +
                     std::string(onDeniedName(session.network.on_denied)) + "\"; leave it out");
}

Result<> checkSurroundings(const RunRequest& run, const Session& session) {
  if (!run.image.empty() && run.image != session.provenance.image) {
    return invalid("image", "must be the session's, \"" + session.provenance.image +
                                "\"; leave it out, or make a session with \"" + run.image + "\"");
  }
  if (run.deps.empty()) return {};
  return invalid("deps", "must be asked for when the session is made; leave them out");
}

// The door is the session's, so a program cannot have a brokered secret of its own. A file in the
// home folder would be in snapshots of the session.
Result<> checkSecretsOf(const ExecRequest& request) {
  for (size_t i = 0; i < request.run.secrets.size(); ++i) {
    const SecretUse& use = request.run.secrets[i];
    const std::string at = "secrets[" + std::to_string(i) + "]";
    if (use.as == SecretAs::kBroker) {
      return invalid(at + ".as",
                     "a brokered secret belongs to the session's network; name it when the session "
                     "is made");
    }
    if (use.as == SecretAs::kFile && !use.path.starts_with('/')) {
      return invalid(at + ".path",
                     "a session's snapshots have its home folder; name a path below /run/secrets/");
    }
  }
  return {};
}

Result<std::optional<std::string>> readKernel(base::ObjectReader& reader,
                                              const ExecRequest& request) {
  const std::optional<std::string> name = TRY(reader.text("kernel"));
  if (!name) return name;
  if (!isKernelName(*name)) {
    return invalid("kernel", "must be 1 to 32 lower-case letters, digits, _ and -, or \"none\"");
  }
  if (!std::holds_alternative<std::monostate>(request.run.command)) {
    return invalid("kernel", "is for code, and this is a command; leave it out");
  }
  if (request.process && *name != kNoKernel) {
    return invalid("kernel",
                   "a kernel's code has no args, env, secrets, cwd or tty of its own; leave those "
                   "out, or "
                   "ask for kernel \"none\"");
  }
  return name;
}

// A program in a sandbox of its own has nothing of the session's, and nobody to talk to.
Result<> readNested(base::ObjectReader& reader, const Session& session, ExecRequest& request) {
  request.run.nested = TRY(reader.boolean("nested")).value_or(false);
  if (!request.run.nested) return {};
  if (!session.nested) {
    return invalid("nested",
                   "the session has no sandboxes within it; make one with \"nested\": true");
  }
  if (request.kernel.value_or(std::string(kNoKernel)) != kNoKernel) {
    return invalid("kernel",
                   "is the session's, and a nested program has nothing of that; leave it out");
  }
  request.kernel = kNoKernel;
  if (request.keep_input) {
    return invalid(request.terminal ? "tty" : "keep_input",
                   "a nested program takes its input at once; leave it out");
  }
  request.cwd.clear();
  return {};
}

// For a fresh sandbox.
LimitSet ofTheSession() {
  LimitSet named = ofTheSandbox();
  for (const std::string_view own : kFreshLimits)
    named.reset(limitIndex(own));
  return named;
}

Result<bool> readFresh(base::ObjectReader& reader, const Session& session) {
  const auto sandbox = TRY(reader.text(kSandboxMember));
  if (!sandbox || *sandbox == kSessionSandbox) return false;
  const std::string field(kSandboxMember);
  if (*sandbox != kFreshSandbox) return invalid(field, "must be \"fresh\" or \"session\"");
  // In these runtimes a special process in the guest makes fresh sandboxes.
  constexpr std::array<std::string_view, 2> kGuests = {"gvisor", "microvm"};
  const std::string& runtime = session.provenance.runtime;
  if (session.nested || std::ranges::find(kGuests, runtime) == kGuests.end()) return true;
  return invalid(field, "\"fresh\" is not possible in this session: its runtime " + runtime +
                            " has fresh sandboxes only where the session was made with \"nested\": "
                            "true; make one with that, or ask for \"session\"");
}

// A program in a fresh sandbox has of the session the workspace alone, and nobody to talk to.
Result<> checkFresh(ExecRequest& request) {
  if (!request.run.fresh) return {};
  if (request.run.nested) {
    return invalid("nested",
                   "is without the session's files, and \"sandbox\": \"fresh\" has them; "
                   "leave one of the two out");
  }
  if (request.kernel.value_or(std::string(kNoKernel)) != kNoKernel) {
    return invalid("kernel",
                   "runs in the session's sandbox; leave it out, or ask for "
                   "\"sandbox\": \"session\"");
  }
  request.kernel = kNoKernel;
  if (!request.keep_input) return {};
  return invalid(request.terminal ? "tty" : "keep_input",
                 "a program in a fresh sandbox takes its input at once; leave it out, or ask for "
                 "\"sandbox\": \"session\"");
}

// Values in the environment or in a file are for single programs, which name them.
Result<> checkSecretsOf(const SessionRequest& request) {
  const auto& secrets = request.settings.secrets;
  for (size_t i = 0; i < secrets.size(); ++i) {
    if (secrets[i].as == SecretAs::kBroker) continue;
    return invalid("secrets[" + std::to_string(i) + "].as",
                   "a session takes brokered secrets; name this one in the request of each program "
                   "that needs it");
  }
  return {};
}

Result<SessionRequest> readSessionRequest(base::ObjectReader& reader, const RequestBounds& bounds,
                                          const SessionBounds& times) {
  SessionRequest request;
  TRY(readSettings(reader, bounds, request.settings));
  TRY(checkSecretsOf(request));
  request.name = TRY(reader.text("name")).value_or("");
  if (!request.name.empty()) TRY(checkSessionName(request.name, reader.pathOf("name")));
  request.ttl = TRY(readTtl(reader, "ttl_seconds", times.ttl, times.max_ttl));
  request.idle_ttl = TRY(readTtl(reader, "idle_ttl_seconds", times.idle_ttl, times.max_ttl));
  request.pause_after = TRY(readIdle(reader, times.max_ttl));
  request.cwd = TRY(readCwd(reader, ""));
  request.from_snapshot = TRY(readSnapshot(reader));
  request.capabilities = TRY(readScope(reader, request.settings));
  request.settings.nested = TRY(reader.boolean("nested")).value_or(false);
  return request;
}

}  // namespace

Result<SessionRequest> parseSessionRequest(const json::object& body, const RequestBounds& bounds,
                                           const SessionBounds& times) {
  base::ObjectReader reader(body, "");
  SessionRequest request = TRY(readSessionRequest(reader, bounds, times));
  TRY(reader.finish());
  return request;
}

Result<SessionRequest> parseStoredSession(json::object stored, const RequestBounds& bounds) {
  const json::value* cwd = stored.if_contains("cwd");
  if (cwd != nullptr && *cwd == json::string("")) stored.erase("cwd");
  base::ObjectReader reader(stored, "");
  return readSessionRequest(reader, bounds, {.max_ttl = std::chrono::years(100)});
}

json::object toJsonObject(const SessionRequest& request) {
  json::object object = toJsonObject(request.settings);
  object["cwd"] = request.cwd;
  // Only if set: digests of earlier versions' requests must not change.
  if (!request.name.empty()) object["name"] = request.name;
  if (!request.from_snapshot.empty()) object["from_snapshot"] = request.from_snapshot;
  if (const auto& scope = request.capabilities; !scope.empty())
    object["capabilities"] = json::array(scope.begin(), scope.end());
  object["ttl_seconds"] = toSeconds(request.ttl);
  object["idle_ttl_seconds"] = toSeconds(request.idle_ttl);
  if (request.pause_after.count() > 0) object["idle"] = idleOf(request.pause_after);
  return object;
}

Result<SessionMove> parseSessionMove(const json::object& body) {
  base::ObjectReader reader(body, "");
  RunRequest placed;
  SessionMove move;
  TRY(readPlacement(reader, placed));
  move.end_programs = TRY(reader.boolean("end_programs")).value_or(false);
  TRY(reader.finish());
  move.runtime = std::move(placed.runtime);
  move.tier = std::move(placed.tier);
  return move;
}

Result<Renewal> parseRenewal(const json::object& body, const SessionBounds& times) {
  base::ObjectReader reader(body, "");
  Renewal renewal;
  renewal.ttl = TRY(readTtl(reader, "ttl_seconds", {}, times.max_ttl));
  renewal.idle_ttl = TRY(readTtl(reader, "idle_ttl_seconds", {}, times.max_ttl));
  TRY(reader.finish());
  return renewal;
}

namespace {

Result<TerminalSize> readTerminalSize(base::ObjectReader& reader) {
  TerminalSize size;
  size.cols =
      static_cast<uint16_t>(TRY(reader.integer("cols", 1, kMaxTerminalSide)).value_or(size.cols));
  size.rows =
      static_cast<uint16_t>(TRY(reader.integer("rows", 1, kMaxTerminalSide)).value_or(size.rows));
  TRY(reader.finish());
  return size;
}

}  // namespace

Result<TerminalSize> parseTerminalSize(const json::object& body) {
  base::ObjectReader reader(body, "");
  return readTerminalSize(reader);
}

Result<ExecRequest> parseExecRequest(const json::object& body, const RequestBounds& bounds,
                                     const Session& session) {
  base::ObjectReader reader(body, "");
  ExecRequest request;
  request.run.language = session.language;
  request.run.network = session.network;
  request.run.limits = limitsUnasked(session);
  request.run.fresh = TRY(readFresh(reader, session));
  request.run.named_limits = request.run.fresh ? ofTheSession() : ofTheSandbox();
  request.run.artifacts = {};
  const json::value* code = body.if_contains("code");
  // The same default as `cloister run`.
  if (request.run.language.empty() && code != nullptr && !code->is_null()) {
    request.run.language = "python";
  }
  TRY(readRunRequest(reader, bounds, request.run));
  const auto given = [&](std::string_view name) {
    const json::value* value = body.if_contains(name);
    return value != nullptr && !value->is_null();
  };
  request.process = !request.run.args.empty() || !request.run.env.empty() ||
                    !request.run.secrets.empty() || given("cwd") || given("tty");
  TRY(checkSecretsOf(request));
  request.kernel = TRY(readKernel(reader, request));
  request.run.env.insert(session.env.begin(), session.env.end());
  if (!session.deps.empty()) request.run.layers_of = session.language;
  request.cwd = TRY(readCwd(reader, session.cwd));
  request.parent_id = TRY(reader.text("parent_id")).value_or("");
  if (!request.parent_id.empty() && !base::isId("exec", request.parent_id)) {
    return invalid("parent_id", "must be the id of an execution, as in GET /v1/executions");
  }
  request.keep_input = TRY(reader.boolean("keep_input")).value_or(false);
  request.background = TRY(reader.boolean("background")).value_or(false);
  if (const json::object* tty = TRY(reader.object("tty"))) {
    base::ObjectReader inner(*tty, "tty");
    request.terminal = TRY(readTerminalSize(inner));
    request.keep_input = true;
    // A person uses the terminal: by default the program may last as long as any program.
    if (!body.contains("timeout_seconds")) {
      request.run.limits.wall = bounds.max.wall;
      request.run.limits.cpu_time = std::chrono::milliseconds(0);  // derived from the wall time
    }
    request.run.env.try_emplace("TERM", "xterm-256color");
  }
  TRY(readNested(reader, session, request));
  TRY(checkFresh(request));
  TRY(reader.finish());
  const bool apart = request.run.nested || request.run.fresh;
  request.lasts = request.background && !apart && !request.terminal && !given("timeout_seconds");
  request.lasts_cpu = request.lasts && !given("cpu_seconds");
  if (request.run.nested && given("cwd")) {
    return invalid("cwd", "a nested program begins in its own /workspace; leave it out");
  }
  TRY(checkNetwork(body, request.run, session));
  request.run.network = apart ? NetworkRequest{} : session.network;
  TRY(checkShared(request.run.limits, session.limits, request.run));
  TRY(checkSurroundings(request.run, session));
  return request;
}

json::object toJsonObject(const ExecRequest& request) {
  json::object object = toJsonObject(request.run);
  object["cwd"] = request.cwd;
  object["keep_input"] = request.keep_input;
  if (request.kernel) object["kernel"] = *request.kernel;
  if (!request.parent_id.empty()) object["parent_id"] = request.parent_id;
  if (request.terminal) {
    object["tty"] =
        json::object{{"cols", request.terminal->cols}, {"rows", request.terminal->rows}};
  }
  return object;
}

}  // namespace cloister::model

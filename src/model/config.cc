// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <variant>

#include <yaml-cpp/yaml.h>

#include "base/file.h"
#include "base/nearest.h"
#include "model/config_checks.h"
#include "model/yaml.h"

namespace cloister::model {
namespace {

using std::chrono::milliseconds;
using Names = std::vector<std::string>;
using RulesOfTenants = std::map<std::string, PackageRules>;
// A value of `refuse` or `allow`.
struct Allowed {
  bool* value;
};
// Destination of a value; the type determines the form in the file.
using Target = std::variant<std::string*, Names*, Durability*, Accelerator*, Vmm*, OnRevoke*, bool*,
                            uint32_t*, uint64_t*, milliseconds*, Allowed, RulesOfTenants*>;

struct Key {
  std::string_view path;
  Target (*target)(Config&);
  std::string_view unit = {};
  uint64_t min = 0;  // of numbers, in `unit`
  uint64_t max = 0;
  uint64_t scale = 1;  // file value × scale = stored value
};

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kDay = 86'400;

// The path of a key is the path of its member.
#define KEY(path, member) #path, [](Config& c) -> Target { return &c.member; }
#define SAME(path) KEY(path, path)
#define REFUSED(path, member) #path, [](Config& c) -> Target { return Allowed{&c.member}; }

constexpr Key kKeys[] = {
    {SAME(listen)},
    {SAME(state)},
    {SAME(user)},
    {SAME(durability)},
    {KEY(policy, policy.document)},
    {SAME(policy.document)},
    {SAME(policy.allow_weaker)},
    {SAME(tools)},
    {SAME(policies.history), "versions", 1, 100'000},
    {SAME(policies.replay), "requests", 1, 1000},
    {SAME(policies.engine)},
    {SAME(policies.opa.url)},
    {SAME(policies.opa.timeout_ms), "milliseconds", 10, 10'000},
    {SAME(policies.opa.answer_bytes), "bytes", 1024, kMiB},
    {SAME(policies.opa.token_file)},
    {SAME(policies.opa.ca_file)},
    {SAME(http.max_connections), "connections", 1, 100'000},
    {SAME(http.requests_per_tenant), "requests", 1, 100'000},
    {SAME(http.header_bytes), "bytes", 1024, kMiB},
    {SAME(http.body_bytes), "bytes", 1024, kGiB},
    {SAME(http.header_timeout_seconds), "seconds", 1, 300},
    {SAME(http.idle_timeout_seconds), "seconds", 1, 3600},
    {SAME(http.heartbeat_seconds), "seconds", 1, 300},
    {SAME(http.allowed_hosts)},
    {SAME(tls.certificate)},
    {SAME(tls.key)},
    {SAME(tls.client_ca)},
    {SAME(tls.client_crl)},
    {SAME(tls.clients)},
    {SAME(run.concurrent), "sandboxes", 0, 100'000},
    {SAME(run.queue), "executions", 1, 1'000'000},
    {SAME(run.queue_per_tenant), "executions", 1, 1'000'000},
    {SAME(run.output_artifact_bytes), "bytes", 0, 16 * kGiB},
    {SAME(run.finished_in_memory), "executions", 0, 100'000},
    {SAME(run.permit_life_seconds), "seconds", 1, 300},
    {SAME(fairness.kept_percent), "percent", 0, 50},
    {SAME(fairness.skip_seconds), "seconds", 0, 3600},
    {SAME(fairness.weights)},
    {SAME(session.max), "sessions", 0, 100'000},
    {SAME(session.max_per_tenant), "sessions", 0, 100'000},
    {SAME(session.max_execs), "programs", 1, 24},
    {SAME(session.max_connections), "connections", 1, 24},
    {SAME(session.max_watches), "directories", 1, 16},
    {SAME(session.watch_directories), "directories", 1, 8'192},
    {SAME(session.watch_bytes), "bytes", 64 << 10, 64 * kMiB},
    {SAME(session.watch_linger_seconds), "seconds", 1, 600},
    {SAME(session.calls_per_minute), "calls", 0, 1'000'000},
    {SAME(session.max_call_depth), "calls", 0, 64},
    {SAME(session.answer_seconds), "seconds", 1, 7 * kDay},
    {SAME(session.memory_percent), "percent", 1, 100},
    {SAME(session.ttl_seconds), "seconds", 1, 366 * kDay},
    {SAME(session.idle_ttl_seconds), "seconds", 1, 366 * kDay},
    {SAME(session.max_ttl_seconds), "seconds", 1, 366 * kDay},
    {KEY(session.memory.max_keys, session.memory.keys), "keys", 1, 10'000},
    // Larger ones would take long to read where others wait.
    {KEY(session.memory.max_value_bytes, session.memory.value_bytes), "bytes", 1, 256 << 10},
    {KEY(session.memory.max_bytes, session.memory.bytes), "bytes", 1, 64 * kMiB},
    {SAME(kernels.max_per_session), "kernels", 1, 16},
    {SAME(kernels.max_results), "results", 0, 10'000},
    {SAME(kernels.result_bytes), "bytes", 1024, 256 * kMiB},
    {SAME(kernels.results_bytes), "bytes", 1024, 256 * kMiB},
    {SAME(kernels.code_bytes), "bytes", 1024, 3 * kMiB},
    {SAME(kernels.interrupt_ms), "milliseconds", 1, 600'000},
    {KEY(limits.timeout_seconds, limits.wall), "seconds", 1, 7 * kDay, 1000},
    {KEY(limits.cpu_seconds, limits.cpu_time), "seconds", 1, 64 * 7 * kDay, 1000},
    {KEY(limits.cpu_millis, limits.cpu_millis), "thousandths of a core", 10, 1'024'000},
    {KEY(limits.memory_mb, limits.memory_bytes), "MiB", 16, 16 * 1024 * 1024, kMiB},
    {KEY(limits.disk_mb, limits.disk_bytes), "MiB", 1, 16 * 1024 * 1024, kMiB},
    {KEY(limits.inodes, limits.inodes), "files", 64, 100'000'000},
    {KEY(limits.file_size_mb, limits.file_bytes), "MiB", 1, 16 * 1024 * 1024, kMiB},
    {KEY(limits.open_files, limits.open_files), "files", 16, 1'048'576},
    {KEY(limits.pids, limits.pids), "processes", 1, 1'000'000},
    {KEY(limits.max_output_bytes, limits.output_bytes), "bytes", 1, kGiB},
    {SAME(node.name)},
    {SAME(node.max_sandboxes), "sandboxes", 1, 4096},
    {SAME(node.file_locks), "locks", 64, 1'000'000},
    {SAME(node.silence_seconds), "seconds", 1, 3600},
    {SAME(node.runner_seconds), "seconds", 1, 600},
    {SAME(node.cgroup_parent)},
    {SAME(node.uid_base), "uid", 65'536, 4'294'000'000},
    {SAME(node.image_root)},
    {SAME(node.images)},
    {SAME(node.layers_mb), "MiB", 1, 16 << 20},
    {SAME(images.max_mb), "MiB", 1, 16 * 1024 * 1024},
    {SAME(images.max_files), "entries", 1, 100'000'000},
    {SAME(images.idle_seconds), "seconds", 1, kDay},
    {SAME(images.require_verified)},
    {SAME(images.read_after_seconds), "seconds", 0, kDay},
    {SAME(images.verify_seconds), "seconds", 1, 7 * kDay},
    {SAME(workspace.disk.directory)},
    {SAME(workspace.disk.over_mb), "MiB", 1, 16 * 1024 * 1024},
    {SAME(workspace.disk.max_mb), "MiB", 0, 1024 * 1024 * 1024},
    {SAME(workspace.disk.keep_free_mb), "MiB", 0, 1024 * 1024 * 1024},
    {SAME(pool.ready), "sandboxes", 0, 4096},
    {SAME(pool.floor), "sandboxes", 0, 4096},
    {SAME(pool.idle_ms), "milliseconds", 10, kDay * 1000},
    {SAME(pool.spare_memory_percent), "percent", 0, 90},
    {SAME(pool.cpu_pressure_percent), "percent", 1, 100},
    {SAME(pool.zygotes), "interpreters", 0, 256},
    {SAME(pool.zygote_copies), "sandboxes", 1, 1'000'000},
    {SAME(pool.zygote_per_tenant)},
    {SAME(gvisor.runsc)},
    {SAME(gvisor.ready), "sandboxes", 0, 4096},
    {SAME(gvisor.overhead_mb), "MiB", 64, 16 * 1024},
    {SAME(microvm.vmm)},
    {SAME(microvm.qemu)},
    {SAME(microvm.firecracker)},
    {SAME(microvm.libkrun)},
    {SAME(microvm.image)},
    {SAME(microvm.accelerator)},
    {SAME(microvm.emulate)},
    {SAME(microvm.probe_seconds), "seconds", 1, 120},
    {SAME(microvm.ready), "sandboxes", 0, 4096},
    {SAME(microvm.templates), "machines", 0, 64},
    {SAME(microvm.overhead_mb), "MiB", 192, 16 * 1024},
    {SAME(artifacts.max_mb), "MiB", 1, 16 * 1024 * 1024},
    {SAME(artifacts.quota_mb), "MiB", 1, 1024 * 1024 * 1024},
    {SAME(artifacts.quota_count), "artifacts", 1, 1'000'000'000},
    {SAME(artifacts.ttl_days), "days", 0, 36'500},
    {SAME(artifacts.uploads), "uploads", 1, 10'000},
    {SAME(artifacts.uploads_per_tenant), "uploads", 1, 10'000},
    {SAME(artifacts.resume.per_tenant), "uploads", 0, 1'000},
    {SAME(artifacts.resume.max), "uploads", 1, 1'000},
    {SAME(artifacts.resume.max_mb), "MiB", 1, 16 * 1024 * 1024},
    {SAME(artifacts.resume.ttl_seconds), "seconds", 1, 30 * kDay},
    {SAME(artifacts.scan.command)},
    {SAME(artifacts.scan.timeout_seconds), "seconds", 1, 3600},
    {SAME(artifacts.scan.concurrent), "scans", 1, 64},
    {SAME(artifacts.master_key_file)},
    {SAME(agents.levels)},
    {SAME(agents.default_level)},
    {SAME(agents.per_tenant), "agents", 1, 1'000'000},
    {SAME(agents.end_revoked)},
    {SAME(secrets.per_tenant), "secrets", 1, 100'000},
    {SAME(quotas.tenant.concurrent), "runs", 0, 1'000'000'000},
    {SAME(quotas.tenant.sessions), "sessions", 0, 1'000'000'000},
    {SAME(quotas.tenant.runs_per_minute), "runs", 0, 1'000'000'000},
    {SAME(quotas.tenant.cpu_seconds_per_hour), "seconds", 0, 1'000'000'000},
    {SAME(quotas.tenant.memory_mb), "MiB", 0, 1'000'000'000},
    {SAME(quotas.agent.concurrent), "runs", 0, 1'000'000'000},
    {SAME(quotas.agent.sessions), "sessions", 0, 1'000'000'000},
    {SAME(quotas.agent.runs_per_minute), "runs", 0, 1'000'000'000},
    {SAME(quotas.agent.cpu_seconds_per_hour), "seconds", 0, 1'000'000'000},
    {SAME(quotas.agent.memory_mb), "MiB", 0, 1'000'000'000},
    {SAME(mcp.wait_seconds), "seconds", 1, 300},
    {SAME(mcp.heartbeat_seconds), "seconds", 1, 60},
    {SAME(mcp.output_bytes), "bytes", 256, kMiB},
    {SAME(mcp.download_bytes), "bytes", 1024, 16 * kMiB},
    {SAME(mcp.inline_images), "images", 0, 64},
    {SAME(mcp.inline_image_bytes), "bytes", 0, 16 * kMiB},
    {SAME(mcp.sessions), "sessions", 1, 100'000},
    {SAME(mcp.session_idle_seconds), "seconds", 1, 7 * kDay},
    {SAME(snapshots.per_tenant), "snapshots", 0, 1'000'000},
    {SAME(snapshots.max_mb), "MiB", 1, 1024 * 1024},
    {SAME(snapshots.max_entries), "entries", 1, 10'000'000},
    {SAME(snapshots.at_once), "snapshots", 1, 1000},
    {SAME(snapshots.at_once_per_tenant), "snapshots", 1, 1000},
    {SAME(retention.archive_after_days), "days", 0, 36'500},
    {SAME(retention.delete_after_days), "days", 0, 36'500},
    {SAME(retention.keep_at_most), "executions", 0, 1'000'000'000},
    {SAME(retention.every_seconds), "seconds", 1, kDay},
    {SAME(metrics.open)},
    {SAME(auth.failures_per_minute), "attempts", 1, 1'000'000},
    {SAME(auth.on_revoke)},
    {SAME(auth.oidc.issuer)},
    {SAME(auth.oidc.audience)},
    {SAME(auth.oidc.resource)},
    {SAME(auth.oidc.algorithms)},
    {SAME(auth.oidc.ca_file)},
    {SAME(auth.oidc.leeway_seconds), "seconds", 0, 300},
    {SAME(auth.oidc.max_life_seconds), "seconds", 60, 366 * kDay},
    {SAME(auth.oidc.keys_seconds), "seconds", 1, 7 * kDay},
    {SAME(auth.oidc.stale_seconds), "seconds", 0, 30 * kDay},
    {SAME(auth.oidc.refresh_seconds), "seconds", 1, 3600},
    {SAME(auth.oidc.fetch_timeout_ms), "milliseconds", 100, 60'000},
    {SAME(auth.oidc.tenant_claim)},
    {SAME(auth.oidc.tenant)},
    {SAME(auth.oidc.app_claim)},
    {SAME(auth.oidc.agent_claim)},
    {SAME(auth.oidc.user_claim)},
    {SAME(auth.oidc.roles_claim)},
    {SAME(auth.oidc.roles)},
    {SAME(auth.oidc.default_roles)},
    {SAME(auth.oidc.require)},
    {SAME(escalation.ttl_seconds), "seconds", 1, 30 * kDay},
    {SAME(escalation.grant_seconds), "seconds", 1, 30 * kDay},
    {SAME(escalation.pending_per_tenant), "escalations", 1, 100'000},
    {SAME(escalation.pending_per_agent), "escalations", 1, 500},
    {SAME(escalation.workspace_mb), "MiB", 1, 1024 * 1024},
    {SAME(escalation.workspace_files), "files", 1, 1'000'000},
    {SAME(escalation.roles)},
    {SAME(escalation.safe_operations)},
    {SAME(escalation.notification_queue), "notifications", 1, 1'000'000},
    {SAME(escalation.notification_attempts), "attempts", 1, 100},
    {SAME(escalation.notification_pause_ms), "milliseconds", 1, 3'600'000},
    {SAME(escalation.notification_timeout_ms), "milliseconds", 100, 300'000},
    {SAME(escalation.webhook.url)},
    {SAME(escalation.webhook.secret_file)},
    {SAME(escalation.webhook.ca_file)},
    {SAME(escalation.smtp.relay)},
    {SAME(escalation.smtp.from)},
    {SAME(escalation.smtp.to)},
    {SAME(escalation.smtp.starttls)},
    {SAME(escalation.smtp.ca_file)},
    {SAME(escalation.smtp.user)},
    {SAME(escalation.smtp.password_file)},
    {SAME(egress.user)},
    {SAME(egress.resolver)},
    {SAME(egress.internal)},
    {SAME(egress.pool)},
    {SAME(egress.upstream)},
    {SAME(egress.upstream_credentials_file)},
    {SAME(egress.ca_file)},
    {SAME(egress.ask_seconds), "seconds", 1, 600},
    {SAME(egress.connections_per_second), "connections", 1, 100'000},
    {SAME(egress.open_connections), "connections", 1, 100'000},
    {SAME(egress.idle_seconds), "seconds", 1, kDay},
    {SAME(egress.attempts_kept), "attempts", 256, 1'000'000},
    {SAME(packages.pypi.index)},
    {SAME(packages.pypi.credentials_file)},
    {SAME(packages.pypi.file_hosts)},
    {KEY(packages.npm.registry, packages.npm.index)},
    {SAME(packages.npm.credentials_file)},
    {SAME(packages.npm.file_hosts)},
    {SAME(packages.ca_file)},
    {SAME(packages.advisories)},
    {SAME(packages.index_seconds), "seconds", 0, 3600},
    {SAME(packages.index_mb), "MiB", 1, 256},
    {SAME(packages.timeout_seconds), "seconds", 1, 600},
    {SAME(packages.concurrent), "requests", 1, 1000},
    {SAME(packages.build_seconds), "s", 1, 86'400},
    {SAME(packages.build_memory_mb), "MiB", 64, 1 << 20},
    {SAME(packages.build_disk_mb), "MiB", 64, 1 << 20},
    {SAME(packages.max_building), "layers", 1, 64},
    {REFUSED(packages.rules.undated, packages.rules.undated_allowed)},
    {SAME(packages.rules.cooldown_days), "days", 0, 36'500},
    {REFUSED(packages.rules.sdists, packages.rules.sdists_allowed)},
    {REFUSED(packages.rules.scripts, packages.rules.scripts_allowed)},
    {SAME(packages.rules.allow)},
    {SAME(packages.rules.deny)},
    {SAME(packages.rules.pins)},
    {SAME(packages.rules.max_bytes), "bytes", 1, 1024 * kGiB},
    {SAME(packages.tenants)},
    {SAME(audit.checkpoint_every), "entries", 1, 1'000'000},
    {SAME(audit.checkpoint_file)},
    {SAME(audit.anchor_file)},
    {SAME(audit.anchor_max_kb), "KiB", 16, 1'000'000},
    {SAME(audit.publish.every_seconds), "seconds", 1, kDay},
    {SAME(audit.publish.file)},
    {SAME(audit.publish.webhook.url)},
    {SAME(audit.publish.webhook.secret_file)},
    {SAME(audit.publish.webhook.ca_file)},
};

#undef REFUSED
#undef SAME
#undef KEY

Names keyPaths() {
  Names paths;
  for (const Key& key : kKeys)
    paths.emplace_back(key.path);
  return paths;
}

std::string rangeOf(const Key& key) {
  if (key.max == 0) return {};
  return std::to_string(key.min) + " to " + std::to_string(key.max);
}

template <typename T>
using Word = std::pair<std::string_view, T>;
constexpr Word<Accelerator> kAccelerators[] = {
    {"auto", Accelerator::kAuto}, {"kvm", Accelerator::kKvm}, {"tcg", Accelerator::kTcg}};
constexpr char kAcceleratorWords[] = "auto, kvm or tcg";
constexpr Word<Vmm> kVmms[] = {{"auto", Vmm::kAuto},
                               {"qemu", Vmm::kQemu},
                               {"firecracker", Vmm::kFirecracker},
                               {"libkrun", Vmm::kLibkrun}};
constexpr char kVmmWords[] = "auto, qemu, firecracker or libkrun";
constexpr Word<OnRevoke> kOnRevoke[] = {{"finish", OnRevoke::kFinish}, {"end", OnRevoke::kEnd}};
constexpr char kOnRevokeWords[] = "finish or end";

class Setter {
 public:
  Setter(const Key& key, const YAML::Node& node) : key_(key), node_(node) {}

  Result<> operator()(std::string* target) const {
    *target = TRY(text(node_));
    return {};
  }
  Result<> operator()(Names* target) const {
    if (!node_.IsSequence()) return wrong("a list of text");
    constexpr size_t kMost = 256;
    if (node_.size() > kMost) return wrong("a list of at most 256");
    target->clear();
    for (const YAML::Node& item : node_)
      target->push_back(TRY(text(item)));
    return {};
  }
  Result<> operator()(Durability* target) const {
    const std::string word = TRY(text(node_));
    if (word != "process" && word != "power") return wrong("process or power");
    *target = word == "power" ? Durability::kPower : Durability::kProcess;
    return {};
  }
  Result<> operator()(Accelerator* target) const {
    return oneOf(target, kAccelerators, kAcceleratorWords);
  }
  Result<> operator()(Vmm* target) const { return oneOf(target, kVmms, kVmmWords); }
  Result<> operator()(OnRevoke* target) const { return oneOf(target, kOnRevoke, kOnRevokeWords); }
  Result<> operator()(bool* target) const {
    const std::string word = TRY(text(node_));
    if (word != "true" && word != "false") return wrong("true or false");
    *target = word == "true";
    return {};
  }
  Result<> operator()(Allowed target) const {
    const std::string word = TRY(text(node_));
    if (word != "refuse" && word != "allow") return wrong("refuse or allow");
    *target.value = word == "allow";
    return {};
  }
  // Read by readTenants(), once the rules of all tenants are known.
  Result<> operator()(RulesOfTenants* target) const {
    if (!node_.IsMap() && !node_.IsNull()) return wrong("a map of tenants");
    if (node_.size() > 0) target->emplace("", PackageRules());  // not read yet
    return {};
  }
  Result<> operator()(uint32_t* target) const {
    *target = static_cast<uint32_t>(TRY(number()));
    return {};
  }
  Result<> operator()(uint64_t* target) const {
    *target = TRY(number());
    return {};
  }
  Result<> operator()(milliseconds* target) const {
    *target = milliseconds(TRY(number()));
    return {};
  }

 private:
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view wanted) const {
    const std::string path(key_.path);
    return fail(Code::kInvalid, path + ": must be " + std::string(wanted), path);
  }

  template <typename T, size_t N>
  Result<> oneOf(T* target, const Word<T> (&words)[N], std::string_view wanted) const {
    const std::string word = TRY(text(node_));
    const auto* found = std::ranges::find(words, word, [](const auto& each) { return each.first; });
    if (found == std::end(words)) return wrong(wanted);
    *target = found->second;
    return {};
  }

  [[nodiscard]] Result<std::string> text(const YAML::Node& node) const {
    if (!node.IsScalar()) return wrong("text");
    const std::string& value = node.Scalar();
    constexpr size_t kLongest = 4096;
    if (value.size() > kLongest) return wrong("text of at most 4096 bytes");
    if (value.find('\0') != std::string::npos) return wrong("text without a NUL");
    return value;
  }

  [[nodiscard]] Result<uint64_t> number() const {
    const std::string wanted = "a whole number from " + rangeOf(key_);
    if (!node_.IsScalar()) return wrong(wanted);
    std::string digits = node_.Scalar();
    std::erase(digits, '_');  // 1_000_000
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (!whole || value < key_.min || value > key_.max) return wrong(wanted);
    return value * key_.scale;
  }

  const Key& key_;
  const YAML::Node& node_;
};

Result<> applyMap(const YAML::Node& map, const std::string& prefix, std::set<std::string>& seen,
                  Config& config);

bool isSection(const std::string& path) {
  return std::ranges::any_of(kKeys,
                             [&](const Key& key) { return key.path.starts_with(path + "."); });
}

Result<> applyOne(const std::string& path, const YAML::Node& value, std::set<std::string>& seen,
                  Config& config) {
  if (!seen.insert(path).second) return fail(Code::kInvalid, path + ": given twice", path);
  const auto* key = std::ranges::find(kKeys, path, &Key::path);
  const bool short_form = key != std::end(kKeys) && value.IsScalar();
  if (isSection(path) && !short_form) return applyMap(value, path + ".", seen, config);
  if (key == std::end(kKeys)) {
    const std::string nearest = base::nearestName(path, keyPaths());
    const std::string hint = nearest.empty() ? "" : "; did you mean " + nearest + "?";
    return fail(Code::kInvalid, path + ": unknown key" + hint, path);
  }
  return std::visit(Setter(*key, value), key->target(config));
}

Result<> applyMap(const YAML::Node& map, const std::string& prefix, std::set<std::string>& seen,
                  Config& config) {
  if (map.IsNull()) return {};  // a section with all its keys commented out
  if (!map.IsMap()) {
    const std::string name = prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1);
    return fail(Code::kInvalid, (name.empty() ? "the file" : name) + ": must be a map", name);
  }
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) return fail(Code::kInvalid, prefix + "?: a key must be text");
    TRY(applyOne(prefix + entry.first.Scalar(), entry.second, seen, config));
  }
  return {};
}

// `packages.tenants.NAME.rules`: members of `packages.rules` for one tenant.
Result<> readTenants(const YAML::Node& file, Config& config) {
  const auto member = [](const YAML::Node& map, const char* name) {
    const YAML::Node found = map.IsMap() ? map[name] : YAML::Node();
    return found.IsDefined() ? found : YAML::Node();
  };
  const YAML::Node tenants = member(member(file, "packages"), "tenants");
  const bool wanted = !config.packages.tenants.empty();
  config.packages.tenants.clear();
  if (!tenants.IsMap()) {
    constexpr const char* kPath = "packages.tenants";
    if (!wanted) return {};
    return fail(Code::kInvalid, "packages.tenants: must be a map within `packages`", kPath);
  }
  constexpr size_t kMost = 1000;
  if (tenants.size() > kMost) {
    return fail(Code::kInvalid, "packages.tenants: has more than 1000 tenants", "packages.tenants");
  }
  for (const auto& entry : tenants) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const std::string path = "packages.tenants." + name;
    const YAML::Node rules = member(entry.second, "rules");
    if (!rules.IsMap() || entry.second.size() != 1) {
      return fail(Code::kInvalid, path + ": must be a map with `rules` alone", path);
    }
    Config own;
    own.packages.rules = config.packages.rules;
    std::set<std::string> seen;
    if (auto read = applyMap(rules, "packages.rules.", seen, own); !read) {
      read.error().field = path;
      return std::unexpected(std::move(read).error().within(path));
    }
    if (!config.packages.tenants.emplace(name, own.packages.rules).second) {
      return fail(Code::kInvalid, path + ": given twice", path);
    }
  }
  return {};
}

std::string shown(const std::string& text) {
  return text.empty() ? "\"\"" : text;
}

// The type and the default of a key, for the documentation.
struct Describer {
  const Key& key;
  ConfigKey& row;

  void operator()(const std::string* value) const { set("text", shown(*value)); }
  void operator()(const Names* value) const {
    std::string all;
    for (const std::string& item : *value)
      all += (all.empty() ? "" : ", ") + item;
    set("list of text", "[" + all + "]");
  }
  void operator()(const Durability*) const { set("process or power", "process"); }
  void operator()(const Accelerator*) const { set(kAcceleratorWords, "auto"); }
  void operator()(const Vmm*) const { set(kVmmWords, "auto"); }
  void operator()(const OnRevoke*) const { set(kOnRevokeWords, "finish"); }
  void operator()(const bool* value) const { set("true or false", *value ? "true" : "false"); }
  void operator()(Allowed allowed) const {
    set("refuse or allow", *allowed.value ? "allow" : "refuse");
  }
  void operator()(const RulesOfTenants*) const { set("map of tenants to rules", "{}"); }
  void operator()(const uint32_t* value) const { number(*value); }
  void operator()(const uint64_t* value) const { number(*value); }
  void operator()(const milliseconds* value) const {
    number(static_cast<uint64_t>(value->count()));
  }

  void number(uint64_t value) const { set("whole number", std::to_string(value / key.scale)); }
  void set(std::string type, std::string value) const {
    row.type = std::move(type);
    row.default_value = std::move(value);
  }
};

}  // namespace

Result<Config> parseConfig(std::string_view yaml, std::string_view name) {
  Config config;
  std::set<std::string> seen;
  const std::string doing = "reading " + std::string(name);
  try {
    Result<> good = requireOneDocument(yaml);
    if (good) {
      const YAML::Node file = YAML::Load(std::string(yaml));
      good = applyMap(file, "", seen, config);
      if (good) good = readTenants(file, config);
    }
    if (good) good = checkConfig(config);
    if (!good) return std::unexpected(std::move(good).error().within(doing));
  } catch (const YAML::Exception& error) {
    return fail(Code::kInvalid, doing + ": " + error.what());
  }
  return config;
}

Result<Config> loadConfig(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  return parseConfig(TRY(base::readFile(path, kMaxBytes)), path);
}

std::string stateDir(const Config& config) {
  return config.state.empty() ? base::defaultStateDir() : config.state;
}

std::vector<ConfigKey> configKeys() {
  std::vector<ConfigKey> rows;
  Config defaults;
  for (const Key& key : kKeys) {
    ConfigKey row{std::string(key.path), {}, std::string(key.unit), rangeOf(key), {}};
    std::visit(Describer{key, row}, key.target(defaults));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace cloister::model

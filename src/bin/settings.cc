// SPDX-License-Identifier: Apache-2.0
#include "bin/settings.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "bin/dlp_rules.h"
#include "egress/plan/own_names.h"
#include "linux/process.h"
#include "model/yaml.h"

namespace cloister {
namespace {

constexpr int64_t kSecondMicros = 1'000'000;
constexpr int64_t kDayMicros = int64_t{24} * 3600 * kSecondMicros;

// This service's URL for clients (RFC 9728 §2, `resource`).
std::string resourceUrl(const model::Config& config) {
  const std::string& configured = config.auth.oidc.resource;
  const std::string scheme = config.tls.certificate.empty() ? "http://" : "https://";
  std::string url = configured.empty() ? scheme + config.listen : configured;
  while (url.ends_with('/'))
    url.pop_back();
  return url;
}

orchestrator::KernelBounds kernelBounds(const model::Config& config) {
  return {.max_per_session = config.kernels.max_per_session,
          .max_results = config.kernels.max_results,
          .result_bytes = config.kernels.result_bytes,
          .results_bytes = config.kernels.results_bytes,
          .code_bytes = config.kernels.code_bytes,
          .inline_figures = config.mcp.inline_images,
          .inline_figure_bytes = config.mcp.inline_image_bytes,
          .interrupt = std::chrono::milliseconds(config.kernels.interrupt_ms)};
}

model::Quota quotaOf(const model::Config::Quotas::Each& config) {
  const auto bound = [](uint64_t value) {
    return value == 0 ? std::nullopt : std::optional(value);
  };
  return {.concurrent = bound(config.concurrent),
          .sessions = bound(config.sessions),
          .runs_per_minute = bound(config.runs_per_minute),
          .cpu_seconds_per_hour = bound(config.cpu_seconds_per_hour),
          .memory_mb = bound(config.memory_mb)};
}

Result<orchestrator::Fairness> fairnessOf(const model::Config& config) {
  return orchestrator::Fairness{
      .kept_percent = config.fairness.kept_percent,
      .weights = TRY(orchestrator::parseWeights(config.fairness.weights))};
}

}  // namespace

audit::RootSettings rootSettings(const model::Config& config) {
  return {.every = std::chrono::seconds(config.audit.roots.every_seconds),
          .keep = config.audit.roots.keep};
}

orchestrator::QuotaConfig quotaConfig(const model::Config& config) {
  return {.tenant = quotaOf(config.quotas.tenant), .agent = quotaOf(config.quotas.agent)};
}

Result<api::HttpLimits> httpLimits(const model::Config& all) {
  const model::Config::Http& config = all.http;
  // Ledger, blobs, node and log; each resumable upload also has an open file.
  constexpr size_t kFew = 32;
  const size_t own = 64 + all.artifacts.resume.max;
  api::HttpLimits limits;
  constexpr size_t kEach = 2;  // per connection: a socket, and a blob being read or written
  const size_t descriptors = linux::raiseDescriptors(kEach * config.max_connections + own);
  const size_t spare = std::max(kFew, (descriptors - std::min(descriptors, own)) / kEach);
  limits.connections = std::min<size_t>(config.max_connections, spare);
  limits.head_bytes = config.header_bytes;
  limits.body_bytes = config.body_bytes;
  limits.bodies_bytes = std::max(limits.bodies_bytes, 2 * limits.body_bytes);
  limits.fairness = TRY(fairnessOf(all));
  limits.head_time = std::chrono::seconds(config.header_timeout_seconds);
  limits.idle = std::chrono::seconds(config.idle_timeout_seconds);
  return limits;
}

// Some connections stay free for other tenants, whatever the configuration says.
uint32_t requestsPerTenant(const model::Config& config) {
  const uint32_t all = config.http.max_connections;
  return std::min(config.http.requests_per_tenant, all - all / 4);
}

orchestrator::ArtifactConfig artifactConfig(const model::Config& config,
                                            const orchestrator::Quotas* quotas) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  return {.max_bytes = config.artifacts.max_mb * kMiB,
          .quota = {.artifacts = config.artifacts.quota_count,
                    .bytes = config.artifacts.quota_mb * kMiB},
          .quotas = quotas,
          .ttl_us = config.artifacts.ttl_days * kDayMicros,
          .uploads = config.artifacts.uploads,
          .uploads_per_tenant = config.artifacts.uploads_per_tenant,
          .kept = {.all = config.artifacts.resume.max,
                   .per_tenant = config.artifacts.resume.per_tenant,
                   .bytes_per_tenant = config.artifacts.resume.max_mb * kMiB,
                   .ttl = std::chrono::seconds(config.artifacts.resume.ttl_seconds)}};
}

orchestrator::PolicyConfig policyConfig(const model::Config& config) {
  return {.max = config.limits,
          .history = config.policies.history,
          .replay = config.policies.replay,
          .allow_weaker = config.policy.allow_weaker,
          .safe_operations = config.escalation.safe_operations};
}

orchestrator::SnapshotConfig snapshotConfig(const model::Config& config,
                                            const orchestrator::Quotas* quotas) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const orchestrator::ArtifactConfig artifacts = artifactConfig(config, quotas);
  return {.quota = {.snapshots = config.snapshots.per_tenant, .all = artifacts.quota},
          .quotas = quotas,
          .max_bytes = config.snapshots.max_mb * kMiB,
          .max_entries = config.snapshots.max_entries,
          .at_once = config.snapshots.at_once,
          .at_once_per_tenant = config.snapshots.at_once_per_tenant,
          .ttl_us = artifacts.ttl_us,
          .disk_over_bytes = config.workspace.disk.over_mb * kMiB};
}

orchestrator::EscalationConfig escalationConfig(const model::Config& config) {
  constexpr int64_t kMicros = 1'000'000;
  const model::EscalationSettings& from = config.escalation;
  orchestrator::EscalationConfig to;
  to.grant_us = from.grant_seconds * kMicros;
  to.ttl_us = from.ttl_seconds * kMicros;
  to.pending_per_agent = from.pending_per_agent;
  to.workspace_bytes = from.workspace_mb << 20;
  to.workspace_files = from.workspace_files;
  to.bounds = {.pending_per_tenant = from.pending_per_tenant,
               .notifications = from.notification_queue};
  if (!from.webhook.url.empty()) to.channels.emplace_back("webhook");
  if (!from.smtp.relay.empty()) to.channels.emplace_back("smtp");
  to.roles = from.roles;
  to.safe_operations = from.safe_operations;
  return to;
}

orchestrator::NotifierConfig notifierConfig(const model::EscalationSettings& config) {
  orchestrator::NotifierConfig notifier;
  notifier.attempts = config.notification_attempts;
  notifier.first_pause = Millis(config.notification_pause_ms);
  notifier.longest_pause = std::max(notifier.longest_pause, notifier.first_pause);
  return notifier;
}

Result<orchestrator::ControlConfig> controlConfig(const model::Config& config) {
  orchestrator::ControlConfig control;
  control.concurrent = config.run.concurrent;
  control.fairness = TRY(fairnessOf(config));
  control.disk_bytes = config.workspace.disk.max_mb << 20;
  control.disk_over_bytes = config.workspace.disk.over_mb << 20;
  control.permit_life = std::chrono::seconds(config.run.permit_life_seconds);
  control.end_revoked = config.agents.end_revoked;
  control.internal = TRY(model::readInternal(config.egress.internal));
  control.packages = config.packages;
  return control;
}

Result<orchestrator::RunConfig> runConfig(const model::Config& config) {
  orchestrator::RunConfig run;
  run.queue = config.run.queue;
  run.queue_per_tenant = config.run.queue_per_tenant;
  run.skip = std::chrono::seconds(config.fairness.skip_seconds);
  run.output_artifact_bytes = config.run.output_artifact_bytes;
  run.finished_in_memory = config.run.finished_in_memory;
  const orchestrator::ArtifactConfig artifacts = artifactConfig(config, nullptr);
  run.artifact_quota = artifacts.quota;
  run.artifact_ttl_us = artifacts.ttl_us;
  run.retention = {.archive_after_us = config.retention.archive_after_days * kDayMicros,
                   .delete_after_us = config.retention.delete_after_days * kDayMicros,
                   .keep_at_most = config.retention.keep_at_most};
  run.retention_every = std::chrono::seconds(config.retention.every_seconds);
  run.escalation = escalationConfig(config);
  run.dlp = {.output = TRY(dlpRules(config.dlp, model::DlpPlace::kOutput)),
             .artifacts = TRY(dlpRules(config.dlp, model::DlpPlace::kArtifacts))};
  run.trace_programs = config.traces.programs;
  run.end_on_revoke = config.auth.on_revoke == model::OnRevoke::kEnd;
  return run;
}

// The provider, and a digest of the settings that give its users rights: people sign in again
// after a change. An issuer has no fragment (OpenID Connect Discovery 1.0, section 3).
std::string providerName(const model::OidcSettings& oidc) {
  if (oidc.issuer.empty()) return "";
  constexpr size_t kDigits = 16;
  const auto list = [](const std::vector<std::string>& texts) {
    return base::json::array(texts.begin(), texts.end());
  };
  const base::json::array rights = {
      oidc.tenant_claim, oidc.tenant,      oidc.app_claim,   oidc.agent_claim,
      oidc.user_claim,   oidc.roles_claim, list(oidc.roles), list(oidc.default_roles),
      list(oidc.require)};
  return oidc.issuer + "#" + base::sha256Hex(base::toJson(rights)).substr(0, kDigits);
}

Result<auth::AuthOptions> authOptions(const model::Config& config, const auth::Provider& provider) {
  const std::string url = provider.tokens ? resourceUrl(config) : "";
  return auth::AuthOptions{.failures_per_minute = config.auth.failures_per_minute,
                           .tokens = provider.tokens.get(),
                           .resource = url,
                           .issuer = config.auth.oidc.issuer,
                           .certificates = TRY(auth::Certificates::parse(config.tls.clients)),
                           .web = {.life = config.ui.session_seconds * kSecondMicros,
                                   .idle = config.ui.idle_seconds * kSecondMicros,
                                   .most = config.ui.sessions,
                                   .issuer = providerName(config.auth.oidc)},
                           .sign_in = provider.sign_in.get()};
}

orchestrator::LayerConfig layerConfig(const model::Config& config) {
  const model::PackageSettings& packages = config.packages;
  return {.offered = packages.ecosystems(),
          .is_public =
              [packages](model::Ecosystem ecosystem) {
                return packages.source(ecosystem).credentials_file.empty();
              },
          .rules = [packages](const std::string& tenant) { return packages.rulesOf(tenant); },
          .max_building = packages.max_building,
          .advisories = model::advisoriesOf(packages.advisories, config.layers.advisories_seconds),
          .per_tenant = config.layers.per_tenant,
          .bytes_per_tenant = config.layers.mb_per_tenant << 20};
}

orchestrator::BuildBounds buildBounds(const model::Config& config) {
  const model::PackageSettings& packages = config.packages;
  return {.time = std::chrono::seconds(packages.build_seconds),
          .memory_bytes = uint64_t{packages.build_memory_mb} << 20,
          .disk_bytes = uint64_t{packages.build_disk_mb} << 20};
}

orchestrator::SessionConfig sessionConfig(const model::Config& config) {
  return {.max = config.session.max,
          .max_per_tenant = config.session.max_per_tenant,
          .max_execs = config.session.max_execs,
          .max_connections = config.session.max_connections,
          .calls_per_minute = config.session.calls_per_minute,
          .max_call_depth = config.session.max_call_depth,
          .memory_share = config.session.memory_percent / 100.0,
          .patience = {},
          .kernels = kernelBounds(config),
          .watches = {.per_session = config.session.max_watches,
                      .directories = config.session.watch_directories,
                      .kept_bytes = config.session.watch_bytes,
                      .linger = std::chrono::seconds(config.session.watch_linger_seconds)},
          .requests = requestBounds(config)};
}

model::SessionBounds sessionBounds(const model::Config& config) {
  return {.ttl = std::chrono::seconds(config.session.ttl_seconds),
          .idle_ttl = std::chrono::seconds(config.session.idle_ttl_seconds),
          .max_ttl = std::chrono::seconds(config.session.max_ttl_seconds)};
}

Result<std::string> readSetting(std::string_view key, const std::string& configured,
                                const std::string& otherwise) {
  if (configured.empty()) return base::readFile(otherwise);
  auto text = base::readFile(configured);
  if (!text) return std::unexpected(std::move(text).error().within(key));
  return text;
}

Result<std::string> readLine(const std::string& path) {
  std::string text = TRY(base::readFile(path, 4096));
  while (text.ends_with('\n'))
    text.pop_back();
  return text;
}

Result<> checkAdminKey(const std::string& secret, const std::string& path) {
  constexpr size_t kLeast = 16;
  const bool seen = std::ranges::all_of(secret, [](char c) { return c > ' ' && c < 0x7f; });
  if (seen && secret.size() >= kLeast) return {};
  return fail(Code::kInvalid, "reading " + path +
                                  ": it is damaged, or could be guessed: a key is at least 16 "
                                  "visible characters; remove the file to get another");
}

Result<> checkReach(const std::string& state, const std::string& user) {
  if (::access((state + "/ledger").c_str(), R_OK | W_OK | X_OK) == 0) return {};
  auto denied = failErrno("using the state directory " + state + " as the user " + user);
  denied.error().message +=
      "; let others enter the directories above it (chmod o+x), or choose "
      "another with --state";
  return denied;
}

model::RequestBounds requestBounds(const model::Config& config) {
  model::RequestBounds bounds = model::defaultBounds();
  bounds.body_bytes = config.http.body_bytes;
  bounds.max = config.limits;
  return bounds;
}

api::mcp::Settings mcpSettings(const model::Config::Mcp& config) {
  api::mcp::Settings settings;
  settings.text_bytes = config.output_bytes;
  settings.inline_images = config.inline_images;
  settings.inline_image_bytes = config.inline_image_bytes;
  settings.download_bytes = config.download_bytes;
  settings.sync_wait = std::chrono::seconds(config.wait_seconds);
  settings.heartbeat = std::chrono::seconds(config.heartbeat_seconds);
  settings.legacy.sessions = config.sessions;
  settings.legacy.sessions_of_a_key = std::max<size_t>(1, config.sessions / 32);
  settings.legacy.idle = std::chrono::seconds(config.session_idle_seconds);
  return settings;
}

api::mcp::HostedSettings hostedSettings(const model::McpServerSettings& config) {
  return {.per_tenant = config.per_tenant,
          .running = config.running,
          .running_per_agent = config.running_per_agent,
          .start = std::chrono::seconds(config.start_seconds),
          .call = std::chrono::seconds(config.call_seconds),
          .idle = std::chrono::seconds(config.idle_seconds),
          .message_bytes = config.message_bytes,
          .tools = config.tools,
          .starts_per_minute = config.starts_per_minute};
}

api::WebNames webNames(const model::Config& config) {
  api::WebNames names{.hosts = config.http.allowed_hosts,
                      .origins = config.api.cors_origins,
                      .ports_domain = config.ports.domain,
                      .base_path = config.ui.base_path};
  for (const std::string& network : config.http.trusted_proxies)
    names.proxies.push_back(*base::Network::parse(network));  // checked with the configuration
  names.hosts.emplace_back(egress::kApiName);
  return names;
}

Result<api::ToolPrograms> readToolPrograms() {
  const std::string folder = base::shareDir() + "/languages/tools";
  return api::ToolPrograms{.call_python = TRY(base::readFile(folder + "/call.py")),
                           .call_typescript = TRY(base::readFile(folder + "/call.ts")),
                           .schema_python = TRY(base::readFile(folder + "/schema.py")),
                           .client_python = TRY(base::readFile(folder + "/letta_client.py")),
                           .mcp_bridge = TRY(base::readFile(folder + "/mcp_bridge.py"))};
}

Result<model::ToolSet> readTools(const model::Config& config) {
  const std::string own = base::shareDir() + "/policies/tools.yaml";
  const std::string text = TRY(readSetting("tools", config.tools, own));
  return model::ToolSet::parse(text, config.tools.empty() ? own : config.tools);
}

}  // namespace cloister

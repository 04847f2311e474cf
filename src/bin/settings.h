// SPDX-License-Identifier: Apache-2.0
// The configuration file as the settings of each part of cloisterd. Pure, but for httpLimits() and
// what reads files.
#pragma once

#include "api/http/http_server.h"
#include "api/mcp/hosted_server.h"
#include "api/mcp/server.h"
#include "audit/root_keeper.h"
#include "auth/auth.h"
#include "auth/sign_in.h"
#include "model/config.h"
#include "model/run_request.h"
#include "model/session.h"
#include "model/tool.h"
#include "orchestrator/core/control.h"
#include "orchestrator/core/quota.h"
#include "orchestrator/deps/layer_builder.h"
#include "orchestrator/deps/layer_service.h"
#include "orchestrator/governance/notifier.h"
#include "orchestrator/governance/policy_service.h"
#include "orchestrator/runs/run_service.h"
#include "orchestrator/sessions/sessions.h"
#include "orchestrator/sessions/snapshot_service.h"
#include "orchestrator/storage/artifact_service.h"

namespace cloister {

// Raises this process's limit of descriptors as far as the connections need.
Result<api::HttpLimits> httpLimits(const model::Config& all);
uint32_t requestsPerTenant(const model::Config& config);
orchestrator::ArtifactConfig artifactConfig(const model::Config& config,
                                            const orchestrator::Quotas* quotas);
orchestrator::SnapshotConfig snapshotConfig(const model::Config& config,
                                            const orchestrator::Quotas* quotas);
orchestrator::EscalationConfig escalationConfig(const model::Config& config);
orchestrator::NotifierConfig notifierConfig(const model::EscalationSettings& config);
orchestrator::PolicyConfig policyConfig(const model::Config& config);
orchestrator::QuotaConfig quotaConfig(const model::Config& config);
audit::RootSettings rootSettings(const model::Config& config);
Result<orchestrator::ControlConfig> controlConfig(const model::Config& config);
// kInvalid names a DLP rule that cannot be read.
Result<orchestrator::RunConfig> runConfig(const model::Config& config);
// `provider` outlives the options.
Result<auth::AuthOptions> authOptions(const model::Config& config, const auth::Provider& provider);
orchestrator::LayerConfig layerConfig(const model::Config& config);
orchestrator::BuildBounds buildBounds(const model::Config& config);
orchestrator::SessionConfig sessionConfig(const model::Config& config);
model::SessionBounds sessionBounds(const model::Config& config);
model::RequestBounds requestBounds(const model::Config& config);
api::mcp::Settings mcpSettings(const model::Config::Mcp& config);
api::mcp::HostedSettings hostedSettings(const model::McpServerSettings& config);
// The file named by `key` of the configuration, `configured`, or the installation's, `otherwise`.
Result<std::string> readSetting(std::string_view key, const std::string& configured,
                                const std::string& otherwise);
// The text of a small file, without the line breaks at its end.
Result<std::string> readLine(const std::string& path);
// Whether `secret` of the file `path` is hard to guess: at least 16 visible characters.
Result<> checkAdminKey(const std::string& secret, const std::string& path);
// Whether we, now running as `user`, have access to the state directory.
Result<> checkReach(const std::string& state, const std::string& user);
// The registry named by the configuration, or the installation's.
Result<model::ToolSet> readTools(const model::Config& config);
// Names in Host beyond loopback, and origins. Programs with the tier api name the service by a name
// that only sandboxes know.
api::WebNames webNames(const model::Config& config);
// The programs around the source of tools, of the installation.
Result<api::ToolPrograms> readToolPrograms();

}  // namespace cloister

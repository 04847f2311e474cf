// SPDX-License-Identifier: Apache-2.0
// The REST API: each file here is a resource, giving its routes to one table. spec/openapi.yaml is
// the truth about every path, parameter and field; tests hold this to it.
//
// To add a route: the handler and its row in a resource's routes(), the path in spec/openapi.yaml.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include "api/http/http.h"
#include "api/http/router.h"
#include "api/metrics.h"
#include "auth/auth.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/json.h"
#include "model/compat_settings.h"
#include "model/language.h"
#include "model/pool_stats.h"
#include "model/run_request.h"
#include "model/session.h"
#include "orchestrator/core/cursors.h"
#include "orchestrator/governance/escalations.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/runs/run_service.h"
#include "orchestrator/sessions/port_links.h"
#include "orchestrator/sessions/session_memory.h"
#include "orchestrator/sessions/sessions.h"
#include "orchestrator/sessions/snapshot_service.h"
#include "orchestrator/storage/artifact_service.h"
#include "store/store.h"

namespace cloister::orchestrator {
class LayerService;
class PolicyService;
}  // namespace cloister::orchestrator
namespace cloister::model {
class ToolSet;
}
namespace cloister::audit {
class RootKeeper;
}

namespace cloister::api::mcp {
class HostedServers;
}

namespace cloister::api {

// The programs of languages/tools, which the service starts around the source of a tool.
struct ToolPrograms {
  std::string call_python;
  std::string call_typescript;
  std::string schema_python;
  std::string client_python;  // the module letta_client
  std::string mcp_bridge;
};

// The services behind the handlers; all of them outlive the server.
struct RestParts {
  orchestrator::RunService& service;
  orchestrator::Sessions& sessions;
  orchestrator::ArtifactService& artifacts;
  orchestrator::PortLinks port_links;
  orchestrator::Cursors cursors;
  orchestrator::SnapshotService& snapshots;
  orchestrator::EscalationService& escalations;
  store::Store& store;
  auth::Authenticator& authenticator;
  const model::LanguageSet& languages;
  ServiceMetrics& metrics;
  const base::SigningKey& audit_key;
  std::string checkpoint_file = {};
  std::string anchor_file = {};
  std::string audit_losses = {};  // by the anchor or published heads; "": none
  std::string state = {};         // the service's directory
  // HttpServer::certificateExpires()
  std::function<std::optional<int64_t>()> certificate_expires = {};
  std::function<Task<Result<>>()> bucket = {};  // asks the bucket of artifacts.s3; null: none
  model::RequestBounds bounds = {};
  model::SessionBounds session_bounds = {};
  model::MemoryBounds memory_bounds = {};
  Millis answer_within{300'000};  // a server in a session
  std::string ports_domain = {};  // WebNames::ports_domain
  Millis heartbeat{15'000};
  std::string openapi = {};  // the document's text
  std::string version = {};
  bool metrics_open = false;               // without a credential, over a local listener
  std::vector<std::string> notified = {};  // where escalations are told of, for people
  // Threads for work that would block the io thread.
  boost::asio::thread_pool& background;
  // The command filter's verdict on {command | argv, level}; fast enough for the io thread.
  std::function<Result<base::json::object>(const base::json::object&)> explain_command = {};
  const orchestrator::AgentGuard* agents = nullptr;  // null: there are no levels
  uint64_t agents_per_tenant = 10'000;               // agents with a sandbox
  uint64_t secrets_per_tenant = 1000;
  orchestrator::PolicyService* policies = nullptr;  // null: without a history of policies
  orchestrator::LayerService* layers = nullptr;     // null: there are no dependencies
  const model::ToolSet* tools = nullptr;            // null: there are no tool calls
  model::CompatSettings compat = {};
  ToolPrograms tool_programs = {};
  audit::RootKeeper* roots = nullptr;         // null: no proofs of single audit entries
  mcp::HostedServers* mcp_servers = nullptr;  // null: the service hosts none

  [[nodiscard]] orchestrator::SessionMemory memory() { return {sessions, store, memory_bounds}; }
};

// The answer of GET /v1/whoami.
base::json::object whoamiOf(const RestParts& parts, const model::Principal& who);

// The node's ready sandboxes, with known languages; nullopt before a node's first report.
std::optional<model::PoolStats> poolStats(const RestParts& parts);

// Every route of the service. `parts` outlives the routes.
std::vector<Route> restRoutes(RestParts& parts);

// By resource.
std::vector<Route> executionRoutes(RestParts& parts);
std::vector<Route> dependencyRoutes(RestParts& parts);
std::vector<Route> eventRoutes(RestParts& parts);
std::vector<Route> sessionRoutes(RestParts& parts);
std::vector<Route> kernelRoutes(RestParts& parts);
std::vector<Route> fileRoutes(RestParts& parts);
std::vector<Route> memoryRoutes(RestParts& parts);
std::vector<Route> mcpServerRoutes(RestParts& parts);
std::vector<Route> watchRoutes(RestParts& parts);
std::vector<Route> portRoutes(RestParts& parts);
// For Router::servePorts().
Route hostPortRoute(RestParts& parts);
std::vector<Route> artifactRoutes(RestParts& parts);
std::vector<Route> snapshotRoutes(RestParts& parts);
std::vector<Route> escalationRoutes(RestParts& parts);
std::vector<Route> keyRoutes(RestParts& parts);
std::vector<Route> auditRoutes(RestParts& parts);
std::vector<Route> poolRoutes(RestParts& parts);
std::vector<Route> commandRoutes(RestParts& parts);
std::vector<Route> agentRoutes(RestParts& parts);
std::vector<Route> policyRoutes(RestParts& parts);
std::vector<Route> quotaRoutes(RestParts& parts);
std::vector<Route> secretRoutes(RestParts& parts);
std::vector<Route> toolRoutes(RestParts& parts);
std::vector<Route> operationRoutes(RestParts& parts);
std::vector<Route> doctorRoutes(RestParts& parts);
std::vector<Route> auditProofRoutes(RestParts& parts);
std::vector<Route> signInRoutes(RestParts& parts);

}  // namespace cloister::api

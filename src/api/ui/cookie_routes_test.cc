// SPDX-License-Identifier: Apache-2.0
// Each route of the API decides about the cookie of the web interface. A new route is in a list
// here, or this test fails.
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "api/compat/compat.h"
#include "api/parts_fixture.h"
#include "api/ui/ui.h"

namespace cloister::api {
namespace {

constexpr std::string_view kTaken = R"(
GET /v1/agents
GET /v1/agents/{agent}/escalation-policy
PUT /v1/agents/{agent}/escalation-policy
DELETE /v1/agents/{agent}/runtime
GET /v1/agents/{agent}/runtime
PUT /v1/agents/{agent}/runtime
DELETE /v1/agents/{agent}/sandbox
GET /v1/agents/{agent}/sandbox
POST /v1/agents/{agent}/sandbox
GET /v1/agents/{agent}/sandbox/audit
GET /v1/agents/{agent}/sandbox/stats
GET /v1/agents/{agent}/sandbox/usage
GET /v1/agents/{agent}/sandbox/violations
POST /v1/agents/{agent}/sandbox:dry-run
POST /v1/agents/{agent}/sandbox:update
POST /v1/agents/{agent}/sandbox:validate
GET /v1/agents:health
GET /v1/artifacts
POST /v1/artifacts
DELETE /v1/artifacts/{id}
GET /v1/artifacts/{id}
GET /v1/artifacts/{id}/url
GET /v1/audit
GET /v1/audit/entries/{id}/proof
GET /v1/audit/public-key
GET /v1/audit/roots
GET /v1/audit/verify
POST /v1/audit/{position}:redact
GET /v1/capabilities
POST /v1/commands:explain
GET /v1/deps
GET /v1/deps/{id}
POST /v1/deps:prune
GET /v1/doctor
POST /v1/egress:explain
GET /v1/escalations
POST /v1/escalations
GET /v1/escalations/{id}
GET /v1/escalations/{id}/request
POST /v1/escalations/{id}:approve
POST /v1/escalations/{id}:deny
GET /v1/executions
POST /v1/executions
DELETE /v1/executions/{id}
GET /v1/executions/{id}
GET /v1/executions/{id}/events
POST /v1/executions/{id}/input
GET /v1/executions/{id}/receipt
GET /v1/executions/{id}/request
POST /v1/executions/{id}:resize
POST /v1/executions/{id}:signal
GET /v1/images
GET /v1/keys
POST /v1/keys
DELETE /v1/keys/{id}
GET /v1/keys/{id}
POST /v1/keys/{id}:rotate
GET /v1/languages
GET /v1/mcp-servers
POST /v1/mcp-servers
DELETE /v1/mcp-servers/{name}
GET /v1/node
GET /v1/policies
POST /v1/policies
GET /v1/policies/{version}
POST /v1/policies:check
POST /v1/policies:diff
POST /v1/policies:explain
POST /v1/policies:rollback
POST /v1/policies:test
GET /v1/pool
GET /v1/quotas
PUT /v1/quotas/agents/{agent}
PUT /v1/quotas/tenants/{tenant}
GET /v1/secrets
DELETE /v1/secrets/{name}
PUT /v1/secrets/{name}
GET /v1/sessions
POST /v1/sessions
DELETE /v1/sessions/{id}
GET /v1/sessions/{id}
GET /v1/sessions/{id}/events
POST /v1/sessions/{id}/exec
GET /v1/sessions/{id}/files
POST /v1/sessions/{id}/files:mkdir
POST /v1/sessions/{id}/files:move
GET /v1/sessions/{id}/files:watch
GET /v1/sessions/{id}/kernels
POST /v1/sessions/{id}/kernels/{name}:restart
GET /v1/sessions/{id}/memory
DELETE /v1/sessions/{id}/memory/{key}
GET /v1/sessions/{id}/memory/{key}
PUT /v1/sessions/{id}/memory/{key}
POST /v1/sessions/{id}/ports/{port}/tokens
POST /v1/sessions/{id}/renew
POST /v1/sessions/{id}/snapshots
POST /v1/sessions/{id}:move
GET /v1/sign-ins
DELETE /v1/sign-ins/{id}
GET /v1/snapshots
DELETE /v1/snapshots/{id}
GET /v1/snapshots/{id}
DELETE /v1/tenants/{id}/artifacts
POST /v1/tool-calls
GET /v1/tool-calls/{id}
GET /v1/uploads
DELETE /v1/uploads/{upload}
GET /v1/uploads/{upload}
GET /v1/whoami
)";

// Their bytes may be a page from a sandbox.
constexpr std::string_view kFetched = R"(
GET /v1/artifacts/{id}/content
GET /v1/audit/export
GET /v1/executions/{id}/logs
GET /v1/executions/{id}/sbom
GET /v1/sessions/{id}/archive
PUT /v1/sessions/{id}/archive
DELETE /v1/sessions/{id}/files/{path}
GET /v1/sessions/{id}/files/{path}
PUT /v1/sessions/{id}/files/{path}
)";

// Servers in sandboxes answer there, or anybody may ask.
constexpr std::string_view kRefused = R"(
GET /v1/sessions/{id}/ports/{port}
* /v1/sessions/{id}/ports/{port}/{rest}
GET /
GET /.well-known/oauth-protected-resource
GET /.well-known/oauth-protected-resource/mcp
GET /healthz
GET /metrics
GET /openapi.yaml
GET /readyz
DELETE /ui/session
GET /ui
GET /ui/callback
GET /ui/config
GET /ui/login
GET /ui/session
GET /ui/{rest}
POST /ui/session
)";

std::set<std::string> linesOf(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.insert(line);
  }
  return lines;
}

class CookieRoutesTest : public PartsTest {
 protected:
  static std::set<std::string> with(const std::vector<Route>& routes, Cookie rule) {
    std::set<std::string> found;
    for (const Route& route : routes) {
      if (route.cookie == rule) {
        found.insert(std::string(route.method) + " " + std::string(route.pattern));
      }
    }
    return found;
  }
};

TEST_F(CookieRoutesTest, EveryRouteIsDecided) {
  open();
  makeParts();
  const ui::Files files;
  ui::UiParts ui{.rest = *parts_, .files = files};
  auto routes = restRoutes(*parts_);
  std::ranges::move(ui::uiRoutes(ui), std::back_inserter(routes));
  EXPECT_EQ(with(routes, Cookie::kTaken), linesOf(kTaken));
  EXPECT_EQ(with(routes, Cookie::kFetched), linesOf(kFetched));
  EXPECT_EQ(with(routes, Cookie::kRefused), linesOf(kRefused));
}

TEST_F(CookieRoutesTest, OtherInterfacesTakeNone) {
  open();
  makeParts();
  for (const compat::Facade& facade : compat::facades(*parts_)) {
    EXPECT_FALSE(facade.routes.empty());
    for (const Route& route : facade.routes)
      EXPECT_EQ(route.cookie, Cookie::kRefused) << route.pattern;
  }
  EXPECT_EQ(hostPortRoute(*parts_).cookie, Cookie::kRefused);
}

}  // namespace
}  // namespace cloister::api

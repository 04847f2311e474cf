// SPDX-License-Identifier: Apache-2.0
// The table of routes and spec/openapi.yaml name the same permissions.
#include <map>

#include <boost/asio/thread_pool.hpp>
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include "api/rest/rest.h"
#include "auth/auth.h"
#include "orchestrator/session_fixture.h"

namespace cloister::api {
namespace {

using ByRoute = std::map<std::string, std::string>;  // "GET /v1/pool" → "pool.read"

class PermissionsTest : public orchestrator::SessionsTest {
 protected:
  ~PermissionsTest() override {
    escalations_.reset();
    snapshots_.reset();
    artifacts_.reset();
  }

  std::vector<Route> routes() {
    open();
    authenticator_ = std::make_unique<auth::Authenticator>(*store_);
    artifacts_ = std::make_unique<orchestrator::ArtifactService>(io_->get_executor(), background_,
                                                                 *store_, *keeper_, *keyring_,
                                                                 orchestrator::ArtifactConfig{});
    snapshots_ = std::make_unique<orchestrator::SnapshotService>(io_->get_executor(), background_,
                                                                 *store_, *keeper_, *sessions_,
                                                                 orchestrator::SnapshotConfig{});
    links_ = std::make_unique<orchestrator::PortLinks>(*keyring_);
    escalations_ = std::make_unique<orchestrator::EscalationService>(*service_);
    parts_.reset(new RestParts{.service = *service_,
                               .sessions = *sessions_,
                               .artifacts = *artifacts_,
                               .port_links = *links_,
                               .snapshots = *snapshots_,
                               .escalations = *escalations_,
                               .store = *store_,
                               .authenticator = *authenticator_,
                               .languages = languages_,
                               .metrics = served_,
                               .audit_key = key_,
                               .checkpoint_file = {},
                               .bounds = model::defaultBounds(),
                               .session_bounds = {},
                               .answer_within = Millis(300'000),
                               .heartbeat = Millis(15'000),
                               .openapi = {},
                               .version = {},
                               .background = background_});
    return restRoutes(*parts_);
  }

  boost::asio::thread_pool background_{1};
  ServiceMetrics served_;
  std::unique_ptr<auth::Authenticator> authenticator_;
  std::unique_ptr<orchestrator::ArtifactService> artifacts_;
  std::unique_ptr<orchestrator::PortLinks> links_;
  std::unique_ptr<orchestrator::SnapshotService> snapshots_;
  std::unique_ptr<orchestrator::EscalationService> escalations_;
  std::unique_ptr<RestParts> parts_;
};

ByRoute documented() {
  ByRoute found;
  const YAML::Node document =
      YAML::LoadFile(std::string(CLOISTER_SOURCE_DIR) + "/spec/openapi.yaml");
  for (const auto& path : document["paths"]) {
    if (path.first.as<std::string>() == "/mcp") continue;  // not of REST
    for (const auto& operation : path.second) {
      auto method = operation.first.as<std::string>();
      if (method == "parameters") continue;
      std::ranges::transform(method, method.begin(), ::toupper);
      const YAML::Node permission = operation.second["x-permission"];
      found[method + " " + path.first.as<std::string>()] =
          permission ? permission.as<std::string>() : "(no x-permission)";
    }
  }
  return found;
}

std::vector<std::string_view> methodsOf(const Route& route) {
  if (route.method != "*") return {route.method};
  return {"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"};
}

TEST_F(PermissionsTest, RoutesAndTheDocumentNameTheSame) {
  ByRoute served;
  for (const Route& route : routes()) {
    const auto permission = route.access.permission();
    for (const std::string_view method : methodsOf(route))
      served[std::string(method) + " " + std::string(route.pattern)] =
          permission ? model::permissionName(*permission) : "none";
  }
  EXPECT_EQ(served, documented());
}

TEST_F(PermissionsTest, EveryPermissionIsOfUse) {
  std::set<std::string_view> used;
  for (const Route& route : routes()) {
    if (const auto permission = route.access.permission()) {
      used.insert(model::permissionName(*permission));
    }
  }
  for (const model::Grant& grant : model::grants())
    EXPECT_TRUE(used.contains(grant.name)) << grant.name;
}

// A route says who may use it, or it is none.
template <class T>
concept MadeOfNothing = requires { T{}; };
static_assert(!MadeOfNothing<Access>);
static_assert(!MadeOfNothing<Route>);

}  // namespace
}  // namespace cloister::api

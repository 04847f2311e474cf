// SPDX-License-Identifier: Apache-2.0
// The table of routes and spec/openapi.yaml name the same permissions.
#include <map>

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include "api/parts_fixture.h"
#include "api/ui/ui.h"

namespace cloister::api {
namespace {

using ByRoute = std::map<std::string, std::string>;  // "GET /v1/pool" → "pool.read"

class PermissionsTest : public PartsTest {
 protected:
  std::vector<Route> routes() {
    open();
    makeParts();
    auto all = restRoutes(*parts_);
    ui_ = std::make_unique<ui::UiParts>(ui::UiParts{.rest = *parts_, .files = files_});
    std::ranges::move(ui::uiRoutes(*ui_), std::back_inserter(all));
    return all;
  }

 private:
  ui::Files files_;
  std::unique_ptr<ui::UiParts> ui_;
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

// Without an access rule a route cannot be made.
template <class T>
concept MadeOfNothing = requires { T{}; };
static_assert(!MadeOfNothing<Access>);
static_assert(!MadeOfNothing<Route>);

}  // namespace
}  // namespace cloister::api

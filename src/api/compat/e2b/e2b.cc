// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/e2b.h"

#include <algorithm>
#include <iterator>

#include "api/compat/e2b/connect.h"
#include "api/compat/e2b/control.h"
#include "api/compat/e2b/desk.h"
#include "api/compat/e2b/files.h"
#include "api/compat/e2b/filesystem.h"
#include "api/compat/e2b/interpreter.h"
#include "api/compat/e2b/process.h"
#include "api/compat/e2b/sandbox.h"

namespace cloister::api::compat::e2b {
namespace {

class E2b : public Dialect {
 public:
  explicit E2b(RestParts& parts) : desk(parts) {}

  [[nodiscard]] std::string_view prefix() const override { return "e2b"; }
  // Authorization on calls of a sandbox names a user of the sandbox.
  [[nodiscard]] std::string_view credential(const Request& request) const override {
    const std::string_view key = request.header("x-api-key");
    return key.empty() ? bearerToken(request) : key;
  }
  [[nodiscard]] std::optional<Result<auth::Identity>> ownIdentity(
      const Request& request) const override {
    return identityByToken(desk.parts, request);
  }
  void refuse(const Request& request, Response& response) const override {
    constexpr int kBadRequest = 400;  // the clients know no 422
    constexpr int kUnprocessable = 422;
    if (response.status == kUnprocessable) response.status = kBadRequest;
    if (response.failure->unsupported) response.status = 501;
    if (isConnect(request)) return refuseConnect(request, response);
    setJson(response,
            base::json::object{{"code", response.status}, {"message", response.failure->message}});
  }

  Desk desk;
};

}  // namespace

Facade facade(RestParts& parts) {
  auto e2b = std::make_unique<E2b>(parts);
  std::vector<Route> routes;
  for (auto some :
       {controlRoutes(e2b->desk), absentRoutes(), contentRoutes(parts),
        processRoutes(parts, e2b->desk.processes), filesystemRoutes(parts, e2b->desk.watchers),
        interpreterRoutes(parts, e2b->desk.contexts)}) {
    std::ranges::move(some, std::back_inserter(routes));
  }
  return {.dialect = std::move(e2b), .routes = std::move(routes)};
}

}  // namespace cloister::api::compat::e2b

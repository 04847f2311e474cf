// SPDX-License-Identifier: Apache-2.0
// Router: one table of routes, each with who may use it and which query parameters it knows. What
// no route allows is refused before a handler runs and before a body is read.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "api/http/http.h"
#include "api/http/http_server.h"
#include "api/metrics.h"
#include "auth/auth.h"
#include "base/result.h"
#include "model/roles.h"
#include "orchestrator/core/shares.h"

namespace cloister::api {

using model::Permission;

// Who may use a route: anyone(), or needs(Permission::kSessionUse). There is no default, so a route
// that does not say it does not compile; spec/openapi.yaml says the same in `x-permission`, and a
// test holds the two together.
class Access {
 public:
  enum class Or : uint8_t {
    kNobody,
    kLocal,      // whoever comes over a local listener, without a credential
    kAnonymous,  // the same, but a credential that is shown must be valid
    kLink,       // or with a `signature` in the query, which the handler verifies; then there is no
                 // principal
    // or with a link's token behind the port in the path, which the handler verifies; then there is
    // no principal. X-API-Key is looked at first: Authorization may be for the inside
    kPort,
  };

  [[nodiscard]] constexpr std::optional<Permission> permission() const { return permission_; }
  [[nodiscard]] constexpr Or orElse() const { return or_; }

 private:
  constexpr Access(std::optional<Permission> permission, Or other)
      : permission_(permission), or_(other) {}
  friend constexpr Access anyone();
  friend constexpr Access needs(Permission permission, Access::Or other);

  std::optional<Permission> permission_;
  Or or_;
};

// Anyone, without a credential.
constexpr Access anyone() {
  return {std::nullopt, Access::Or::kNobody};
}
// A credential that has it.
constexpr Access needs(Permission permission, Access::Or other = Access::Or::kNobody) {
  return {permission, other};
}

struct Route {
  std::string_view method;  // HEAD goes where GET goes; "*": any but CONNECT and TRACE
  // "/v1/executions/{id}"; a segment {…} matches anything but nothing, "{…}:verb" what ends so; a
  // last "{path}" matches all that is left, slashes included, and "{rest}" nothing too.
  std::string_view pattern;
  Access access;
  std::vector<std::string_view> query;  // parameters it knows; others are refused
  std::function<Task<Result<Response>>(Request&)> handle;
  bool json_body = false;  // takes a JSON body
  // Takes any body of at most so many bytes, which the handler reads from Request::incoming. A
  // route that takes neither refuses a body.
  std::optional<uint64_t> stream_body = std::nullopt;
  bool passes_on = false;  // to a server inside, whose query and encoding of the body it is
  // Called when the principal lacks the permission, before it is told so: for attempts that must
  // leave a trace.
  std::function<Task<void>(Request&)> lacking = {};
};

class Router : public HttpHandler {
 public:
  // `per_tenant`: requests that one tenant may have under way, answers that go on among them. Those
  // of links, which are of no principal, share as many.
  Router(std::vector<Route> routes, auth::Authenticator& authenticator, ServiceMetrics& metrics,
         uint32_t per_tenant = UINT32_MAX);

  Task<std::optional<Response>> admit(Request& request) override;
  Task<Response> handle(Request& request) override;
  void answered(const Request& request, int status, double seconds) override;
  void connections(size_t open) override;
  bool stands(const auth::Credential& credential) override;
  void looked() override;
  // `look` is called by looked(), and outlives this.
  void onLook(std::function<void()> look) { look_ = std::move(look); }

 private:
  std::optional<Response> match(Request& request) const;
  Task<std::optional<Response>> identify(Request& request);
  void challenge(const Request& request, Response& refused) const;

  std::vector<Route> routes_;
  auth::Authenticator& authenticator_;
  ServiceMetrics& metrics_;
  orchestrator::Shares under_way_;
  std::function<void()> look_ = [] {};
};

// Query parameters, by name; kInvalid names the parameter.
std::optional<std::string> queryText(const Request& request, std::string_view name);
Result<std::optional<int64_t>> queryInteger(const Request& request, std::string_view name,
                                            int64_t min, int64_t max);
Result<bool> queryFlag(const Request& request,
                       std::string_view name);  // true or false, else absent

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// Router: a table of routes, each with its access rule and its known query parameters. A request
// without a matching route is refused before a handler runs and before a body is read.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "api/http/cookies.h"
#include "api/http/dialect.h"
#include "api/http/http.h"
#include "api/http/http_server.h"
#include "api/metrics.h"
#include "auth/auth.h"
#include "base/result.h"
#include "model/roles.h"
#include "orchestrator/core/shares.h"
#include "trace/tracer.h"

namespace cloister::api {

using model::Permission;

// The access rule of a route: anyone(), or needs(Permission::kSessionUse). There is no default, so
// a route without a rule does not compile. spec/openapi.yaml repeats the rule in `x-permission`,
// and a test compares the two.
class Access {
 public:
  enum class Or : uint8_t {
    kNobody,
    kLocal,      // any client of a local listener, without a credential
    kAnonymous,  // the same, but a shown credential must be valid
    kLink,  // or with a `signature` in the query, verified by the handler; then without a principal
    // or with a link's token behind the port in the path, verified by the handler; then without a
    // principal. X-API-Key is looked at first: Authorization may be for the inside
    kPort,
    // or with a link's token in the query or in a cookie, verified by the handler; then without a
    // principal. For ports named by Host: Authorization is for the inside, unless a key of ours
    kHostPort,
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
// A credential with the permission.
constexpr Access needs(Permission permission, Access::Or other = Access::Or::kNobody) {
  return {permission, other};
}

struct Route {
  std::string_view method;  // HEAD goes where GET goes; "*": any but CONNECT and TRACE
  // "/v1/executions/{id}"; a segment {…} matches any text except "", "{…}:verb" any text with that
  // ending; a last "{path}" matches the rest with its slashes, and "{rest}" also "".
  std::string_view pattern;
  Access access;
  std::vector<std::string_view> query;  // known parameters; others are refused
  std::function<Task<Result<Response>>(Request&)> handle;
  bool json_body = false;                       // takes a JSON body
  std::string_view media = "application/json";  // type of the JSON body
  bool decodes = false;                         // the handler reads Content-Encoding itself
  // Takes any body of at most so many bytes; the handler reads from Request::incoming. A route
  // without `json_body` and `stream_body` refuses a body.
  std::optional<uint64_t> stream_body = std::nullopt;
  Cookie cookie = Cookie::kRefused;
  bool any_query = false;  // parameters unknown here have no effect
  bool passes_on = false;  // to a server inside: query and content coding are its own
  // Called for a principal without the permission, before the refusal: some attempts must leave a
  // trace.
  std::function<Task<void>(Request&)> lacking = {};
};

class Router : public HttpHandler {
 public:
  // `per_tenant`: the most requests under way of a tenant, including lasting answers. Requests by
  // links have no principal, and share as many. The `dialects` outlive the router.
  Router(std::vector<Route> routes, auth::Authenticator& authenticator, ServiceMetrics& metrics,
         uint32_t per_tenant = UINT32_MAX, std::vector<const Dialect*> dialects = {});

  Task<std::optional<Response>> admit(Request& request) override;
  Task<Response> handle(Request& request) override;
  void finish(const Request& request, Response& response) override;
  void answered(const Request& request, int status, double seconds) override;
  void connections(size_t open) override;
  bool stands(const auth::Credential& credential) override;
  void looked() override;
  // The route of all requests to a port named by Host (Request::at_port): its parameters are the
  // session and the port.
  void servePorts(Route route) { ports_ = std::move(route); }
  // Records a span for each request of a route with a credential. `tracer` outlives the router.
  void trace(trace::Tracer* tracer) { tracer_ = tracer; }
  // looked() calls `look`, which outlives the router.
  void onLook(std::function<void()> look) { look_ = std::move(look); }

 private:
  std::optional<Response> match(Request& request) const;
  std::optional<Response> matchPort(Request& request) const;
  Task<std::optional<Response>> identify(Request& request);
  Task<Result<auth::Identity>> identityOf(const Request& request);
  [[nodiscard]] const Dialect* dialectOf(const Request& request) const;
  void beginTrace(Request& request) const;
  void endTrace(const Request& request, int status, double seconds) const;
  void challenge(const Request& request, Response& refused) const;

  std::vector<Route> routes_;
  std::optional<Route> ports_;
  auth::Authenticator& authenticator_;
  ServiceMetrics& metrics_;
  orchestrator::Shares under_way_;
  std::vector<const Dialect*> dialects_;
  std::function<void()> look_ = [] {};
  trace::Tracer* tracer_ = nullptr;
};

// Query parameters, by name; kInvalid names the parameter.
std::optional<std::string> queryText(const Request& request, std::string_view name);
Result<std::optional<int64_t>> queryInteger(const Request& request, std::string_view name,
                                            int64_t min, int64_t max);
Result<bool> queryFlag(const Request& request,
                       std::string_view name);  // true or false, else absent

}  // namespace cloister::api

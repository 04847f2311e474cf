// SPDX-License-Identifier: Apache-2.0
// Router: one table of routes, each with who may use it and which query parameters it knows. What
// no route allows is refused before a handler runs and before a body is read.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "api/http_server.h"
#include "api/metrics.h"
#include "auth/auth.h"
#include "base/result.h"

namespace cloister::api {

enum class Access {
  kOpen,   // anyone
  kLocal,  // anyone on a local listener, elsewhere a key
  kKey,    // any valid key
  kAdmin,  // an administrator's key
  kLink,  // any valid key, or a `signature` in the query, which the handler verifies: then there is
          // no principal
};

struct Route {
  std::string_view method;  // HEAD goes where GET goes
  // "/v1/executions/{id}"; a segment {…} matches anything but nothing, "{…}:verb" what ends so; a
  // last
  // "{…...}" matches all that is left, slashes included.
  std::string_view pattern;
  Access access = Access::kKey;
  std::vector<std::string_view> query;  // parameters it knows; others are refused
  std::function<Task<Result<Response>>(Request&)> handle;
  bool json_body = false;  // takes a JSON body
  // Takes any body of at most so many bytes, which the handler reads from Request::incoming. A
  // route that takes neither refuses a body.
  std::optional<uint64_t> stream_body = std::nullopt;
};

class Router : public HttpHandler {
 public:
  Router(std::vector<Route> routes, auth::Authenticator& authenticator, ServiceMetrics& metrics);

  std::optional<Response> admit(Request& request) override;
  Task<Response> handle(Request& request) override;
  void answered(const Request& request, int status, double seconds) override;
  void connections(size_t open) override;

 private:
  std::optional<Response> match(Request& request) const;
  std::optional<Response> identify(Request& request);

  std::vector<Route> routes_;
  auth::Authenticator& authenticator_;
  ServiceMetrics& metrics_;
};

// Query parameters, by name; kInvalid names the parameter.
std::optional<std::string> queryText(const Request& request, std::string_view name);
Result<std::optional<int64_t>> queryInteger(const Request& request, std::string_view name,
                                            int64_t min, int64_t max);
Result<bool> queryFlag(const Request& request,
                       std::string_view name);  // true or false, else absent

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
#include "api/http/router.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "api/http/problem.h"
#include "base/log.h"

namespace cloister::api {
namespace {

// The values of the pattern's {…}, or nothing when the path is another.
std::optional<std::vector<std::string>> matchPath(std::string_view pattern,
                                                  const std::vector<std::string>& path) {
  std::vector<std::string> params;
  for (size_t at = 0; at < path.size(); ++at) {
    const std::string& segment = path[at];
    if (!pattern.starts_with('/')) return std::nullopt;
    pattern.remove_prefix(1);
    if (pattern == "{path}" || pattern == "{rest}") {
      const bool may_be_empty = pattern == "{rest}";
      params.push_back(segment);
      while (++at < path.size())
        params.back() += "/" + path[at];
      if (params.back().empty() && !may_be_empty) return std::nullopt;
      return params;
    }
    const std::string_view wanted = pattern.substr(0, pattern.find('/'));
    if (wanted.starts_with('{')) {
      const std::string_view suffix = wanted.substr(wanted.find('}') + 1);
      if (segment.size() <= suffix.size() || !segment.ends_with(suffix)) return std::nullopt;
      // "x:verb" is not an id: patterns with verbs spell the verb out.
      if (suffix.empty() && wanted == pattern && segment.contains(':')) return std::nullopt;
      params.push_back(segment.substr(0, segment.size() - suffix.size()));
    } else if (wanted != segment) {
      return std::nullopt;
    }
    pattern.remove_prefix(wanted.size());
  }
  if (!pattern.empty()) return std::nullopt;
  return params;
}

std::string_view credential(const Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (lowerCase(authorization.substr(0, kScheme.size())) == kScheme) {
    return authorization.substr(kScheme.size());
  }
  return authorization.empty() ? request.header("x-api-key") : std::string_view();
}

constexpr std::string_view kMcpPath = "/mcp";
constexpr std::string_view kMetadataPath = "/.well-known/oauth-protected-resource";

std::optional<Response> checkBody(const Request& request, const Route& route) {
  if (!request.has_body || route.passes_on) return std::nullopt;
  if (!route.json_body && !route.stream_body) {
    return problem(400, "request body: this route takes none");
  }
  const std::string encoding = lowerCase(request.header("content-encoding"));
  if (!encoding.empty() && encoding != "identity") {
    return problem(415, "Content-Encoding: compressed bodies are not accepted");
  }
  if (route.stream_body) return std::nullopt;
  const std::string type = lowerCase(request.header("content-type"));
  const std::string_view media = std::string_view(type).substr(0, type.find(';'));
  if (!type.empty() && media.substr(0, media.find_last_not_of(' ') + 1) != "application/json") {
    return problem(415, "Content-Type: must be application/json");
  }
  return std::nullopt;
}

std::optional<Response> checkQuery(const Request& request, const Route& route) {
  if (route.passes_on) return std::nullopt;
  if (!request.bad_query.empty()) return problem(400, request.bad_query);
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(route.query, name) == route.query.end()) {
      return problem(
          Error{Code::kInvalid, "query parameter " + name + ": unknown here", "query." + name},
          request);
    }
  }
  return std::nullopt;
}

std::unexpected<Error> badQuery(std::string_view name, const std::string& wanted) {
  return fail(Code::kInvalid, "query parameter " + std::string(name) + ": must be " + wanted,
              "query." + std::string(name));
}

}  // namespace

Router::Router(std::vector<Route> routes, auth::Authenticator& authenticator,
               ServiceMetrics& metrics, uint32_t per_tenant)
    : routes_(std::move(routes)),
      authenticator_(authenticator),
      metrics_(metrics),
      under_way_({.all = UINT32_MAX, .per_tenant = per_tenant, .key = "http.requests"}) {}

Task<std::optional<Response>> Router::admit(Request& request) {
  if (auto refused = match(request)) co_return refused;
  if (auto refused = co_await identify(request)) co_return refused;
  if (request.matched->access.permission()) {
    auto place = under_way_.enter(request.principal.tenant, "answering", "requests");
    if (!place) co_return problem(place.error(), request);
    request.place = *std::move(place);
  }
  if (auto refused = checkQuery(request, *request.matched)) co_return refused;
  request.stream_limit = request.matched->stream_body;
  co_return checkBody(request, *request.matched);
}

std::optional<Response> Router::match(Request& request) const {
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  std::set<std::string_view> allowed;
  for (const Route& route : routes_) {
    auto params = matchPath(route.pattern, request.path);
    if (!params) continue;
    const bool any = route.method == "*" && method != "CONNECT" && method != "TRACE";
    if (!any) allowed.insert(route.method);
    if (!any && route.method != method) continue;
    request.matched = &route;
    request.route = route.pattern;
    request.params = std::move(*params);
    return std::nullopt;
  }
  if (allowed.empty()) return problem(404, "no such path; see /openapi.yaml");
  std::string allow;
  for (const std::string_view each : allowed)
    allow += (allow.empty() ? "" : ", ") + std::string(each);
  return problem(405, "this path takes " + allow).with("Allow", allow);
}

Task<std::optional<Response>> Router::identify(Request& request) {
  const Access access = request.matched->access;
  const std::optional<Permission> needed = access.permission();
  if (!needed || (access.orElse() == Access::Or::kLocal && request.local)) co_return std::nullopt;
  if (access.orElse() == Access::Or::kAnonymous && request.local && credential(request).empty()) {
    co_return std::nullopt;
  }
  if (access.orElse() == Access::Or::kLink && queryText(request, "signature")) {
    co_return std::nullopt;
  }
  const bool port = access.orElse() == Access::Or::kPort;
  if (port && request.params.at(1).contains('~')) co_return std::nullopt;
  const std::string_view shown =
      port && request.count("x-api-key") > 0 ? request.header("x-api-key") : credential(request);
  Result<auth::Identity> identity = auth::refused();
  if (shown.empty() && request.certificate) {
    identity = authenticator_.identify(*request.certificate);
  } else {
    identity = co_await authenticator_.identify(shown, request.peer);
  }
  if (!identity) {
    metrics_.refused(identity.error().code == Code::kUnauthorized ? "unauthorized" : "forbidden");
    Response refused = problem(identity.error(), request);
    challenge(request, refused);
    co_return refused;
  }
  request.credential = identity->credential();
  request.principal = std::move(identity->principal);
  request.principal.request = request.id;
  request.principal.ends_at = request.credential.ends_at;
  request.answer_for_credential();
  if (!request.principal.may(*needed)) {
    metrics_.refused("forbidden");
    if (request.matched->lacking) co_await request.matched->lacking(request);
    co_return lacks(*needed);
  }
  co_return std::nullopt;
}

// RFC 9728 §5.1: a refused client learns the source of tokens.
void Router::challenge(const Request& request, Response& refused) const {
  const std::string& resource = authenticator_.options().resource;
  if (refused.status != 401 || resource.empty()) return;
  const std::string suffix = request.route == kMcpPath ? std::string(kMcpPath) : "";
  for (Header& header : refused.headers) {
    if (header.name != "WWW-Authenticate") continue;
    header.value =
        "Bearer resource_metadata=\"" + resource + std::string(kMetadataPath) + suffix + "\"";
  }
}

Task<Response> Router::handle(Request& request) {
  Result<Response> response = co_await request.matched->handle(request);
  if (response) co_return std::move(*response);
  co_return problem(response.error(), request);
}

void Router::answered(const Request& request, int status, double seconds) {
  metrics_.answered(request.route, request.matched ? request.matched->method : "", status, seconds);
  if (!base::isLogged(base::Level::kDebug)) return;
  base::log(base::Level::kDebug, "request",
            {{"request", request.id},
             {"method", request.method},
             {"route", request.route},
             {"status", int64_t{status}},
             {"micros", static_cast<int64_t>(seconds * 1e6)},
             {"tenant", request.principal.tenant}});
}

void Router::connections(size_t open) {
  metrics_.connections(open);
}

bool Router::stands(const auth::Credential& credential) {
  return authenticator_.stands(credential);
}

void Router::looked() {
  look_();
}

std::optional<std::string> queryText(const Request& request, std::string_view name) {
  for (const auto& [key, value] : request.query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

Result<std::optional<int64_t>> queryInteger(const Request& request, std::string_view name,
                                            int64_t min, int64_t max) {
  const std::optional<std::string> text = queryText(request, name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < min || value > max) {
    return badQuery(name,
                    "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

Result<bool> queryFlag(const Request& request, std::string_view name) {
  const std::optional<std::string> text = queryText(request, name);
  if (!text || *text == "false") return false;
  if (*text != "true") return badQuery(name, "true or false");
  return true;
}

}  // namespace cloister::api

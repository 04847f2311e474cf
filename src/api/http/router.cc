// SPDX-License-Identifier: Apache-2.0
#include "api/http/router.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "api/http/problem.h"
#include "base/log.h"

namespace cloister::api {
namespace {

// "x:verb" is no id: patterns with verbs spell the verb out. A digest is one.
bool isId(std::string_view segment) {
  constexpr std::string_view kAlgorithm = "sha256:";
  if (segment.starts_with(kAlgorithm)) segment.remove_prefix(kAlgorithm.size());
  return !segment.contains(':');
}

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
      if (suffix.empty() && wanted == pattern && !isId(segment)) return std::nullopt;
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
  const std::string_view token = bearerToken(request);
  if (!token.empty() || request.count("authorization") > 0) return token;
  return request.header("x-api-key");
}

// Prefixes of keys (auth::KeyFormat).
constexpr auto kOurKeys = std::to_array<std::string_view>({"clo_", "e2b_"});
// Whether a request to a host of a port shows a key of the service. Another credential is the inner
// server's.
bool showsOurKey(const Request& request) {
  const std::string_view shown = credential(request);
  return request.count("x-api-key") > 0 || std::ranges::any_of(kOurKeys, [&](std::string_view key) {
           return shown.starts_with(key);
         });
}

constexpr std::string_view kMcpPath = "/mcp";
constexpr std::string_view kMetadataPath = "/.well-known/oauth-protected-resource";

std::optional<Response> checkBody(const Request& request, const Route& route) {
  if (!request.has_body || route.passes_on) return std::nullopt;
  if (!route.json_body && !route.stream_body) {
    return problem(400, "request body: this route takes none");
  }
  const std::string encoding = lowerCase(request.header("content-encoding"));
  if (!encoding.empty() && encoding != "identity" && !route.decodes) {
    return problem(415, "Content-Encoding: compressed bodies are not accepted");
  }
  if (route.stream_body) return std::nullopt;
  const std::string type = lowerCase(request.header("content-type"));
  const std::string_view media = std::string_view(type).substr(0, type.find(';'));
  if (!type.empty() && media.substr(0, media.find_last_not_of(' ') + 1) != route.media) {
    return problem(415, "Content-Type: must be " + std::string(route.media));
  }
  return std::nullopt;
}

std::optional<Response> checkQuery(const Request& request, const Route& route) {
  if (route.passes_on || route.any_query) return std::nullopt;
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

// Clients of other services evolve with these services: a parameter unknown here has no effect.
std::optional<Response> readLenientQuery(Request& request) {
  if (request.bad_query.empty()) return std::nullopt;
  auto query = parseRepeatedQuery(request.target);
  if (!query) return problem(400, query.error().message);
  request.query = *std::move(query);
  return std::nullopt;
}

}  // namespace

Router::Router(std::vector<Route> routes, auth::Authenticator& authenticator,
               ServiceMetrics& metrics, uint32_t per_tenant, std::vector<const Dialect*> dialects)
    : routes_(std::move(routes)),
      authenticator_(authenticator),
      metrics_(metrics),
      under_way_({.all = UINT32_MAX, .per_tenant = per_tenant, .key = "http.requests"}),
      dialects_(std::move(dialects)) {}

Task<std::optional<Response>> Router::admit(Request& request) {
  if (auto refused = match(request)) co_return refused;
  beginTrace(request);
  if (auto refused = co_await identify(request)) co_return refused;
  if (request.matched->access.permission()) {
    auto place = under_way_.enter(request.principal.tenant, "answering", "requests");
    if (!place) co_return problem(place.error(), request);
    request.place = *std::move(place);
  }
  auto refused = dialectOf(request) == nullptr ? checkQuery(request, *request.matched)
                                               : readLenientQuery(request);
  if (refused) co_return refused;
  request.stream_limit = request.matched->stream_body;
  co_return checkBody(request, *request.matched);
}

// No path of the API is served there.
std::optional<Response> Router::matchPort(Request& request) const {
  const HostPort& wanted = *request.at_port;
  if (wanted.session.empty() || !ports_) {
    return problem(404, "no such host: ports of sessions are <port>-<id with - for _>.<domain>");
  }
  if (request.method == "CONNECT" || request.method == "TRACE") {
    return problem(405, "this host takes no " + request.method);
  }
  request.matched = &*ports_;
  request.route = ports_->pattern;
  request.params = {wanted.session, std::to_string(wanted.port), ""};
  return std::nullopt;
}

std::optional<Response> Router::match(Request& request) const {
  if (request.at_port) return matchPort(request);
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
  const bool host = access.orElse() == Access::Or::kHostPort;
  if (host && !showsOurKey(request)) co_return std::nullopt;
  Result<auth::Identity> identity = co_await identityOf(request);
  if (!identity) {
    metrics_.refused(identity.error().code == Code::kUnauthorized ? "unauthorized" : "forbidden");
    Response refused = problem(identity.error(), request);
    challenge(request, refused);
    co_return refused;
  }
  request.credential = identity->credential();
  request.principal = std::move(identity->principal);
  request.principal.request = request.id;
  request.principal.trace = request.trace;
  request.principal.ends_at = request.credential.ends_at;
  request.answer_for_credential();
  if (!request.principal.may(*needed)) {
    metrics_.refused("forbidden");
    if (request.matched->lacking) co_await request.matched->lacking(request);
    co_return lacks(*needed);
  }
  co_return std::nullopt;
}

Task<Result<auth::Identity>> Router::identityOf(const Request& request) {
  const auto or_else = request.matched->access.orElse();
  const bool host = or_else == Access::Or::kHostPort;
  const Dialect* dialect = host ? nullptr : dialectOf(request);
  if (dialect != nullptr) {
    if (auto identity = dialect->ownIdentity(request)) co_return *std::move(identity);
  }
  const bool port = host || or_else == Access::Or::kPort;
  std::string_view shown = credential(request);
  if (dialect != nullptr) {
    shown = dialect->credential(request);
  } else if (port && request.count("x-api-key") > 0) {
    shown = request.header("x-api-key");
  }
  const std::string cookie = CO_TRY(sessionCookie(request, request.matched->cookie));
  if (shown.empty() && !cookie.empty()) {
    co_return authenticator_.identifyCookie(cookie, request.peer, isAttended(request));
  }
  if (shown.empty() && request.certificate) {
    co_return authenticator_.identify(*request.certificate);
  }
  co_return co_await authenticator_.identify(shown, request.peer);
}

const Dialect* Router::dialectOf(const Request& request) const {
  if (request.path.empty()) return nullptr;
  const auto found = std::ranges::find(dialects_, request.path.front(),
                                       [](const Dialect* each) { return each->prefix(); });
  return found == dialects_.end() ? nullptr : *found;
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

void Router::finish(const Request& request, Response& response) {
  if (!response.failure) return;
  if (const Dialect* dialect = dialectOf(request)) dialect->refuse(request, response);
}

void Router::answered(const Request& request, int status, double seconds) {
  metrics_.answered(request.route, request.matched ? request.matched->method : "", status, seconds);
  endTrace(request, status, seconds);
  if (!base::isLogged(base::Level::kDebug)) return;
  base::log(base::Level::kDebug, "request",
            {{"request", request.id},
             {"method", request.method},
             {"route", request.route},
             {"status", int64_t{status}},
             {"micros", static_cast<int64_t>(seconds * 1e6)},
             {"tenant", request.principal.tenant}});
}

// A header given twice is none: nobody can tell which one counts.
void Router::beginTrace(Request& request) const {
  if (tracer_ == nullptr || !request.matched->access.permission()) return;
  const bool once = request.count("traceparent") == 1;
  request.caller = tracer_->admit(once ? request.header("traceparent") : "");
  if (request.caller) request.trace = trace::beneath(request.caller);
}

// Names follow OpenTelemetry's conventions for HTTP servers.
void Router::endTrace(const Request& request, int status, double seconds) const {
  if (tracer_ == nullptr || !request.trace) return;
  constexpr int kServerError = 500;
  const int64_t end = base::wallMicros();
  trace::Span span{.at = request.trace,
                   .parent = request.caller.span,
                   .name = std::string(request.matched->method) + " " + std::string(request.route),
                   .kind = trace::Kind::kServer,
                   .start_us = end - static_cast<int64_t>(seconds * 1e6),
                   .end_us = end,
                   .attributes = {{"http.request.method", request.method},
                                  {"http.route", std::string(request.route)},
                                  {"http.response.status_code", int64_t{status}},
                                  {"cloister.request.id", request.id}},
                   .error = status >= kServerError ? std::to_string(status) : ""};
  if (!request.principal.tenant.empty()) {
    span.attributes.emplace_back("cloister.tenant", request.principal.tenant);
  }
  tracer_->ended(std::move(span));
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

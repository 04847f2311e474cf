// SPDX-License-Identifier: Apache-2.0
// The way to a sandbox's ports: GET …/endpoints/{port} names the address below …/proxy/{port},
// where its services (execd, egress) and its programs' servers answer.
#include <algorithm>
#include <charconv>
#include <utility>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/lifecycle_json.h"
#include "api/http/problem.h"
#include "api/rest/ports.h"
#include "api/rest/requests.h"
#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

constexpr int kSegmentsBefore = 5;  // /opensandbox/v1/sandboxes/{id}/proxy
constexpr int64_t kMaxTokenSeconds = 7 * 86'400;

Result<uint16_t> portOf(const std::string& text) {
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, port);
  if (parsed.ec == std::errc() && parsed.ptr == end && port > 0) return port;
  return fail(Code::kInvalid, "port: must be a whole number from 1 to 65535", "url.port");
}

// The time of the token: to `expires` (Unix seconds), or as long as the sandbox may live.
Result<int64_t> tokenSeconds(const Request& request, const model::Session& sandbox) {
  const int64_t now = base::wallMicros() / kMicrosPerSecond;
  const auto expires = TRY(queryInteger(request, "expires", 0, INT64_MAX / kMicrosPerSecond));
  if (expires && *expires <= now) {
    return fail(Code::kInvalid, "query parameter expires: must be a time to come, in Unix seconds",
                "query.expires");
  }
  const int64_t end = sandbox.expires_at == 0 ? INT64_MAX : sandbox.expires_at / kMicrosPerSecond;
  return std::clamp<int64_t>(expires.value_or(end) - now, 1, kMaxTokenSeconds);
}

// Clients attach the token to each request to the endpoint. The services of the sandbox have
// a header each.
std::string_view tokenHeader(uint16_t port) {
  return port == kEgressPort ? "OPENSANDBOX-EGRESS-AUTH" : "X-EXECD-ACCESS-TOKEN";
}

Task<Result<Response>> endpoint(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  const uint16_t port = CO_TRY(portOf(request.params[1]));
  CO_TRY(desk.parts.sessions.mayConnect(request.principal, sandbox.id, "resolving an endpoint"));
  const int64_t expires_at = linkEnd(request.credential, CO_TRY(tokenSeconds(request, sandbox)));
  const std::string token = CO_TRY(desk.parts.port_links.sign(
      sandbox.principal.tenant, sandbox.id, port, expires_at, request.credential.id));
  const bool own = port == kExecdPort || port == kEgressPort;
  // A link for whoever has no header to set, as a browser; asked for by `expires`.
  const bool in_path = !own && queryText(request, "expires");
  std::string address = std::string(request.header("host")) + "/opensandbox/v1/sandboxes/" +
                        sandbox.id + "/proxy/" + std::to_string(port);
  if (in_path) address += "~" + token;
  json::object answer{{"endpoint", address}};
  if (own) answer["headers"] = json::object{{tokenHeader(port), token}};
  co_return jsonResponse(200, answer);
}

Task<Result<Response>> proxy(Desk& desk, Request& request) {
  const PortTarget target = CO_TRY(portTarget(request, kSegmentsBefore));
  if (target.token.empty()) CO_TRY(co_await reach(desk, request));
  co_return co_await passToPort(desk.parts, request, target);
}

// The port itself: its pages begin one slash later.
Task<Result<Response>> proxyRoot(Desk& desk, Request& request) {
  const PortTarget target = CO_TRY(portTarget(request, kSegmentsBefore));
  if (target.token.empty()) CO_TRY(co_await reach(desk, request));
  Response response;
  response.status = 308;
  co_return response.with("Location", target.prefix + target.inside);
}

Task<Result<Response>> noSuchService(Desk& desk, Request& request) {
  CO_TRY(liveSandbox(desk, request));
  co_return fail(Code::kNotFound, "this service of the sandbox has no such path: " +
                                      request.method + " /" + request.params[1]);
}

Task<Result<Response>> noTerminals(Desk& desk, Request& request) {
  CO_TRY(liveSandbox(desk, request));
  co_return fail(
      Code::kUnsupported,
      "terminals are not offered here; POST /v1/sessions/{id}/exec with `tty` makes one");
}

}  // namespace

std::vector<Route> endpointRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/endpoints/{port}",
       .access = needs(Permission::kSessionUse),
       .query = {"use_server_proxy", "expires"},
       .handle = with(desk, endpoint)},
  };
}

std::vector<Route> otherRoutes(const DeskPtr& desk) {
  return {
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/pty",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, noTerminals),
       .json_body = true,
       .passes_on = true},
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/pty/{rest}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, noTerminals),
       .json_body = true,
       .passes_on = true},
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/{rest}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, noSuchService),
       .json_body = true,
       .passes_on = true},
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/18080/{rest}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, noSuchService),
       .json_body = true,
       .passes_on = true},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/{port}",
       .access = needs(Permission::kSessionUse, Access::Or::kPort),
       .query = {},
       .handle = with(desk, proxyRoot),
       .passes_on = true},
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/{port}/{rest}",
       .access = needs(Permission::kSessionUse, Access::Or::kPort),
       .query = {},
       .handle = with(desk, proxy),
       .stream_body = UINT64_MAX,
       .passes_on = true},
  };
}

}  // namespace cloister::api::compat::opensandbox

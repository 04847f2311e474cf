// SPDX-License-Identifier: Apache-2.0
#include "api/compat/opensandbox/opensandbox.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "api/compat/opensandbox/desk.h"

namespace cloister::api::compat::opensandbox {
namespace {

constexpr std::string_view kKeyHeader = "open-sandbox-api-key";
constexpr std::array<std::string_view, 2> kTokenHeaders = {"x-execd-access-token",
                                                           "opensandbox-egress-auth"};

// Path segments of a sandbox's ports: opensandbox, v1, sandboxes, {id}, proxy, {port}.
constexpr size_t kId = 3;
constexpr size_t kProxy = 4;
constexpr size_t kPort = 5;

bool isOfPort(const Request& request) {
  return request.path.size() > kPort && request.path[2] == "sandboxes" &&
         request.path[kProxy] == "proxy";
}

bool isOfPort(const Request& request, uint16_t port) {
  return isOfPort(request) && request.path[kPort] == std::to_string(port);
}

struct ErrorName {
  int status;
  std::string_view lifecycle;
  std::string_view execd;
};
constexpr std::array kErrorNames = {
    ErrorName{400, "INVALID_REQUEST", "INVALID_REQUEST_BODY"},
    ErrorName{401, "INVALID_API_KEY", "INVALID_ACCESS_TOKEN"},
    ErrorName{403, "FORBIDDEN", "FORBIDDEN"},
    ErrorName{404, "SANDBOX::NOT_FOUND", "NOT_FOUND"},
    ErrorName{405, "METHOD_NOT_ALLOWED", "METHOD_NOT_ALLOWED"},
    ErrorName{409, "CONFLICT", "CONFLICT"},
    ErrorName{413, "TOO_LARGE", "TOO_LARGE"},
    ErrorName{415, "INVALID_REQUEST", "INVALID_REQUEST_BODY"},
    ErrorName{416, "RANGE_NOT_SATISFIABLE", "RANGE_NOT_SATISFIABLE"},
    ErrorName{429, "QUOTA_EXCEEDED", "QUOTA_EXCEEDED"},
    ErrorName{501, "NOT_SUPPORTED", "NOT_SUPPORTED"},
    ErrorName{503, "UNAVAILABLE", "UNAVAILABLE"},
    ErrorName{507, "NO_SPACE", "NO_SPACE"},
};

std::string nameOf(const Request& request, int status, bool shown_credential) {
  const bool execd = isOfPort(request, kExecdPort);
  if (status == 401 && !shown_credential) return "MISSING_API_KEY";
  if (status == 404 && execd && request.path.size() > kPort + 1) {
    const std::string& of = request.path[kPort + 1];
    if (of == "files" || of == "directories") return "FILE_NOT_FOUND";
    if (of == "code") return "CONTEXT_NOT_FOUND";
    if (of == "command") return "COMMAND_NOT_FOUND";
    if (of == "session") return "SESSION_NOT_FOUND";
  }
  if (status == 404 && request.path.size() > 2 && request.path[2] == "snapshots") {
    return "SNAPSHOT::NOT_FOUND";
  }
  const auto* const found = std::ranges::find(kErrorNames, status, &ErrorName::status);
  if (found == kErrorNames.end()) return execd ? "RUNTIME_ERROR" : "INTERNAL_ERROR";
  return std::string(execd ? found->execd : found->lifecycle);
}

class OpenSandbox : public Dialect {
 public:
  explicit OpenSandbox(RestParts& parts) : parts_(parts) {}

  [[nodiscard]] std::string_view prefix() const override { return "opensandbox"; }

  // The clients send their key with each request, to a sandbox's services, too.
  [[nodiscard]] std::string_view credential(const Request& request) const override {
    if (request.count(kKeyHeader) > 0) return request.header(kKeyHeader);
    return bearerToken(request);
  }

  // Without a key, the token of an endpoint opens this endpoint alone.
  [[nodiscard]] std::optional<Result<auth::Identity>> ownIdentity(
      const Request& request) const override {
    if (!credential(request).empty() || !isOfPort(request)) return std::nullopt;
    for (const std::string_view header : kTokenHeaders) {
      if (request.count(header) > 0) return byToken(request, request.header(header));
    }
    return std::nullopt;
  }

  void refuse(const Request& request, Response& response) const override {
    constexpr int kUnprocessable = 422;
    if (response.status == kUnprocessable) {
      response.status = response.failure->unsupported ? 501 : 400;
    }
    if (isOfPort(request, kEgressPort)) {
      std::erase_if(response.headers,
                    [](const Header& header) { return lowerCase(header.name) == "content-type"; });
      response.with("Content-Type", "text/plain; charset=utf-8");
      response.body = response.failure->message + "\n";
      return;
    }
    const bool shown = !credential(request).empty();
    setJson(response, base::json::object{{"code", nameOf(request, response.status, shown)},
                                         {"message", response.failure->message}});
  }

 private:
  Result<auth::Identity> byToken(const Request& request, std::string_view token) const {
    const std::string& port_text = request.path[kPort];
    uint16_t port = 0;
    const char* end = port_text.data() + port_text.size();
    const auto parsed = std::from_chars(port_text.data(), end, port);
    if (parsed.ec != std::errc() || parsed.ptr != end) return auth::refused();
    const std::string& id = request.path[kId];
    auto owner = parts_.sessions.ownerOf(id);
    const auto link = parts_.port_links.verify(owner ? owner->tenant : "", id, port, token);
    if (!link || !owner) return auth::refused();
    model::Principal principal = *std::move(owner);
    principal.key_id = link->made_with;
    constexpr int64_t kMicros = 1'000'000;
    return auth::Identity{.principal = std::move(principal), .ends_at = link->expires_at * kMicros};
  }

  RestParts& parts_;
};

}  // namespace

Facade facade(RestParts& parts) {
  const auto desk = std::make_shared<Desk>(parts);
  Facade made{.dialect = std::make_unique<OpenSandbox>(parts), .routes = {}};
  // The services of a sandbox come before the ports of its programs.
  for (auto routes : {createRoutes, lifecycleRoutes, operationRoutes, snapshotRoutes,
                      endpointRoutes, commandRoutes, codeRoutes, fileRoutes, transferRoutes,
                      directoryRoutes, metricRoutes, isolatedRoutes, egressRoutes, otherRoutes})
    std::ranges::move(routes(desk), std::back_inserter(made.routes));
  return made;
}

}  // namespace cloister::api::compat::opensandbox

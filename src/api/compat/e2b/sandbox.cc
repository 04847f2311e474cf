// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/sandbox.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "api/compat/e2b/connect.h"
#include "api/http/port_headers.h"
#include "api/http/problem.h"
#include "base/clock.h"
#include "model/tool.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;
using orchestrator::PortLinks;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int64_t kMicros = 1'000'000;
// Longer than any session lives.
constexpr int64_t kTokenSeconds = int64_t{2} * 366 * 24 * 3600;

// "49983-ses_abc.example.com" → {"49983", "ses_abc"}. Host names have no underscore, so "-" may
// stand for "_".
std::pair<std::string_view, std::string> hostParts(const Request& request) {
  const std::string_view host = request.header("host");
  const size_t dash = host.find('-');
  const size_t dot = host.find('.');
  if (dash == 0 || dash == std::string_view::npos || dot == std::string_view::npos || dot < dash) {
    return {};
  }
  const std::string_view port = host.substr(0, dash);
  if (port.find_first_not_of("0123456789") != std::string_view::npos) return {};
  std::string id = lowerCase(host.substr(dash + 1, dot - dash - 1));
  std::ranges::replace(id, '-', '_');
  return {port, std::move(id)};
}

constexpr std::string_view kAccessToken = "x-access-token";

// A token of the request, and the name under which it was signed. The token of traffic is made to
// be given away: the token opens ports, and of the interface only /contexts, where clients send no
// other.
struct Shown {
  std::string_view token;
  bool traffic = false;
};
Shown tokenIn(const Request& request) {
  if (request.count(kAccessToken) > 0) return {.token = request.header(kAccessToken)};
  if (request.path.size() < 2 || request.path[1] != "contexts") return {};
  return {.token = request.header(kTrafficToken), .traffic = true};
}

int64_t tokenEnd(const model::Session& session, const auth::Credential& credential) {
  const int64_t end = session.created_at / kMicros + kTokenSeconds;
  return credential.ends_at == 0 ? end : std::min(end, credential.ends_at / kMicros);
}

Result<auth::Identity> identify(const RestParts& parts, const Request& request,
                                const Shown& shown) {
  const std::string id = sandboxOf(request);
  const auto session = parts.store.session(store::Scope::allTenants(), id);
  if (!session) return auth::refused();
  const model::Principal& owner = session->principal;
  const auto link = parts.port_links.verify(owner.tenant, shown.traffic ? trafficOf(id) : id,
                                            PortLinks::kWholeSession, shown.token);
  if (!link) return auth::refused();
  auth::Identity identity{.principal = owner, .ends_at = 0};
  if (link->made_with == owner.key_id && !owner.key_id.starts_with("key_")) {
    // A token of an identity provider: the roles are of the session's creation.
    identity.principal = parts.sessions.ownerOf(id).value_or(owner);
    identity.ends_at = link->expires_at * kMicros;
  } else {
    identity.principal = TRY(parts.authenticator.holderOf(link->made_with, request.peer));
  }
  if (!identity.principal.sees(owner)) return auth::refused();
  return identity;
}

// The clients make names of ports below this domain (getHost).
json::value domainOf(const RestParts& parts) {
  if (parts.ports_domain.empty()) return nullptr;
  return json::string(parts.ports_domain);
}

std::string_view templateOf(const model::Session& session) {
  const std::string_view name = memberOf(session, kTemplateMember);
  if (!name.empty()) return name;
  return session.provenance.image.empty() ? std::string_view("base")
                                          : std::string_view(session.provenance.image);
}

json::object metadataOf(const model::Session& session) {
  json::object shown;
  for (const auto& [name, value] : session.metadata) {
    if (!std::string_view(name).starts_with(model::kReservedMetadata)) shown[name] = value;
  }
  return shown;
}

// Resumes a paused sandbox that was made for it. False: it stays paused.
Task<Result<bool>> wake(RestParts& parts, const model::Principal& who,
                        const model::Session& session) {
  if (parts.sessions.pausedSince(session.id) == 0) co_return true;
  // A session that is paused for idleness is resumed by the request itself.
  if (session.pause_after > Millis(0)) co_return true;
  if (memberOf(session, kResumeMember) != "true") co_return false;
  const auto resumed = co_await parts.sessions.resume(who, session.id);
  // Another request may have been first.
  if (!resumed && parts.sessions.pausedSince(session.id) != 0) {
    co_return std::unexpected(resumed.error());
  }
  co_return true;
}

}  // namespace

std::string_view memberOf(const model::Session& session, std::string_view name) {
  const json::value* value = session.metadata.if_contains(name);
  if (value == nullptr || !value->is_string()) return {};
  return value->get_string();
}

std::string sandboxOf(const Request& request) {
  if (request.count("e2b-sandbox-id") > 0) return std::string(request.header("e2b-sandbox-id"));
  return hostParts(request).second;
}

uint16_t portOf(const Request& request) {
  std::string_view text = request.header("e2b-sandbox-port");
  if (text.empty()) text = hostParts(request).first;
  uint16_t port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? port : uint16_t{0};
}

bool isToSandbox(const Request& request) {
  static constexpr auto kRoots = std::to_array<std::string_view>(
      {"health", "files", "metrics", "envs", "execute", "contexts"});
  if (isConnect(request)) return true;
  return request.path.size() > 1 && std::ranges::find(kRoots, request.path[1]) != kRoots.end();
}

Result<std::string> tokenOf(const RestParts& parts, const model::Session& session,
                            const auth::Credential& credential) {
  return parts.port_links.sign(session.principal.tenant, session.id, PortLinks::kWholeSession,
                               tokenEnd(session, credential), credential.id);
}

std::optional<Result<auth::Identity>> identityByToken(const RestParts& parts,
                                                      const Request& request) {
  if (!isToSandbox(request)) return std::nullopt;
  const Shown shown = tokenIn(request);
  if (shown.token.empty()) return std::nullopt;
  return identify(parts, request, shown);
}

Result<json::object> sandboxObject(const RestParts& parts, const Request& request,
                                   const model::Session& session) {
  const std::string token = TRY(tokenOf(parts, session, request.credential));
  const std::string traffic = TRY(parts.port_links.sign(
      session.principal.tenant, trafficOf(session.id), PortLinks::kWholeSession,
      tokenEnd(session, request.credential), request.credential.id));
  return json::object{{"sandboxID", session.id},       {"templateID", templateOf(session)},
                      {"alias", templateOf(session)},  {"clientID", session.provenance.node},
                      {"envdVersion", kEnvdVersion},   {"envdAccessToken", token},
                      {"trafficAccessToken", traffic}, {"domain", domainOf(parts)}};
}

json::object listedObject(const RestParts& parts, const model::Session& session,
                          std::optional<int64_t> end_at) {
  constexpr uint32_t kCore = 1000;
  return {{"sandboxID", session.id},
          {"templateID", templateOf(session)},
          {"alias", templateOf(session)},
          {"clientID", session.provenance.node},
          {"startedAt", base::formatTime(session.created_at)},
          {"endAt", base::formatTime(end_at.value_or(session.expires_at))},
          {"state", parts.sessions.pausedSince(session.id) == 0 ? "running" : "paused"},
          {"cpuCount", (session.limits.cpu_millis + kCore - 1) / kCore},
          {"memoryMB", session.limits.memory_bytes / kMiB},
          {"diskSizeMB", session.limits.disk_bytes / kMiB},
          {"envdVersion", kEnvdVersion},
          {"metadata", metadataOf(session)},
          {"volumeMounts", json::array()}};
}

Result<json::object> detailObject(const RestParts& parts, const Request& request,
                                  const model::Session& session, std::optional<int64_t> end_at) {
  json::object shown = listedObject(parts, session, end_at);
  shown["envdAccessToken"] = TRY(tokenOf(parts, session, request.credential));
  shown["domain"] = domainOf(parts);
  const std::string_view internet = memberOf(session, kInternetMember);
  if (!internet.empty()) shown["allowInternetAccess"] = internet == "true";
  json::array names;
  for (const model::NetworkEntry& entry : session.network.allow) {
    const json::value name = json::string(entry.name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  shown["network"] = json::object{{"allowOut", std::move(names)}, {"allowPublicTraffic", false}};
  const bool pauses = memberOf(session, kTimeoutMember) == kPauses;
  shown["lifecycle"] = json::object{{"onTimeout", pauses ? "pause" : "kill"},
                                    {"autoResume", memberOf(session, kResumeMember) == "true"}};
  return shown;
}

Response goneResponse() {
  return problem(502, "the sandbox is not running: it has ended, or it is paused");
}

std::function<Task<Result<Response>>(Request&)> inSandbox(RestParts& parts, InSandbox handle) {
  return [&parts, handle = std::move(handle)](Request& request) -> Task<Result<Response>> {
    const std::string id = sandboxOf(request);
    if (id.empty()) {
      co_return fail(Code::kInvalid,
                     "E2b-Sandbox-Id: missing; the header names the sandbox of the request",
                     "header.E2b-Sandbox-Id");
    }
    const auto ended = [](const Result<model::Session>& session) {
      return session && session->status == model::SessionStatus::kEnded;
    };
    const auto session = parts.sessions.get(request.principal, id);
    if (ended(session)) co_return goneResponse();
    if (!session) co_return std::unexpected(session.error());
    if (!CO_TRY(co_await wake(parts, request.principal, *session))) co_return goneResponse();
    auto answer = co_await handle(request, *session);
    const bool failed = !answer && answer.error().code == Code::kConflict;
    if (failed && ended(parts.sessions.get(request.principal, id))) co_return goneResponse();
    co_return answer;
  };
}

}  // namespace cloister::api::compat::e2b

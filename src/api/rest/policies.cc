// SPDX-License-Identifier: Apache-2.0
// /v1/policies: the versions of the policy document, and questions about them; /v1/egress:explain.
#include <algorithm>
#include <charconv>

#include "api/http/problem.h"
#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "orchestrator/governance/policy_service.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr size_t kMaxNote = 1000;
constexpr size_t kMaxName = 64;

Result<orchestrator::PolicyService*> serviceOf(RestParts& parts) {
  if (parts.policies == nullptr) {
    return fail(Code::kUnsupported, "policies: this service was put together without them");
  }
  return parts.policies;
}

json::object toJsonObject(const store::PolicyVersion& policy, int64_t in_force) {
  const model::Principal& who = policy.applied_by;
  return {{"version", policy.version},
          {"name", policy.name},
          {"sha256", policy.sha256},
          {"origin", policy.origin},
          {"applied_at", base::formatTime(policy.applied_at)},
          {"applied_by", json::object{{"tenant", who.tenant},
                                      {"app", who.app},
                                      {"agent", who.agent},
                                      {"user", who.user},
                                      {"key", who.key_id}}},
          {"note", policy.note},
          {"restores", policy.restores == 0 ? json::value(nullptr) : json::value(policy.restores)},
          {"in_force", policy.version == in_force}};
}

// The document of a version never changes, so the version is its tag (RFC 9110 §8.8.3).
std::string tagOf(int64_t version) {
  return '"' + std::to_string(version) + '"';
}

// The answer to a change: the new version, and the warnings for the author of its document.
Response inForce(const orchestrator::PolicyService& service, const store::PolicyVersion& made) {
  const std::vector<std::string> warnings = service.warnings(made.document);
  json::object answer = toJsonObject(made, service.version());
  answer["warnings"] = json::array(warnings.begin(), warnings.end());
  return jsonResponse(201, answer)
      .with("ETag", tagOf(made.version))
      .with("Location", "/v1/policies/" + std::to_string(made.version));
}

// Errors inside a document are reported for the member `document`.
std::unexpected<Error> ofDocument(Error error) {
  if (error.code == Code::kInvalid || error.code == Code::kTooLarge) error.field = "document";
  return std::unexpected(std::move(error));
}

Result<std::string> shortText(base::ObjectReader& reader, std::string_view name, size_t most) {
  std::string text = TRY(reader.text(name)).value_or("");
  const auto control = [](char c) { return static_cast<uint8_t>(c) < ' ' || c == 0x7f; };
  if (text.size() > most || std::ranges::any_of(text, control)) {
    return fail(Code::kInvalid,
                std::string(name) + ": must be at most " + std::to_string(most) +
                    " bytes without control characters",
                std::string(name));
  }
  return text;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const auto* service = CO_TRY(serviceOf(parts));
  store::PolicyQuery query;
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxList));
  if (limit) query.limit = static_cast<uint32_t>(*limit);
  const ListCursor cursors = cursorOf(parts, request.principal, "policies");
  if (const auto cursor = queryText(request, "cursor")) {
    query.before = static_cast<int64_t>(CO_TRY(cursors.read(*cursor)));
  }
  const auto versions = CO_TRY(parts.store.policyVersions(query));
  json::array items;
  for (const store::PolicyVersion& version : versions)
    items.push_back(toJsonObject(version, service->version()));
  json::value cursor = nullptr;
  if (versions.size() == query.limit) {
    cursor = CO_TRY(cursors.before(static_cast<uint64_t>(versions.back().version)));
  }
  co_return jsonResponse(
      200, json::object{{"policies", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

// What a change expects to replace: by the body's `expected_version`, or by If-Match.
struct Expected {
  std::optional<int64_t> version;
  bool by_tag = false;
};

Result<Expected> expectedIn(const Request& request, std::optional<int64_t> in_body) {
  const std::string_view tag = request.header("if-match");
  if (tag.empty() || tag == "*") return Expected{.version = in_body};
  if (in_body) {
    return fail(Code::kInvalid, "expected_version: give either this or the header If-Match",
                "expected_version");
  }
  int64_t version = 0;
  const bool quoted = tag.size() > 2 && tag.front() == '"' && tag.back() == '"';
  const char* const begin = tag.data() + 1;
  const char* const last = tag.data() + tag.size() - 1;
  if (request.count("if-match") == 1 && quoted) {
    const auto [end, error] = std::from_chars(begin, last, version);
    if (error == std::errc() && end == last && version > 0) {
      return Expected{.version = version, .by_tag = true};
    }
  }
  return fail(Code::kInvalid,
              "header If-Match: must be a single ETag of GET /v1/policies/current, as \"7\"",
              "header.if-match");
}

// 412 where the tag of If-Match is stale.
Result<Response> refusedChange(const Expected& expected, Error error) {
  const bool stale = error.code == Code::kConflict && error.field == "expected_version";
  if (!expected.by_tag || !stale) return std::unexpected(std::move(error));
  return problem(412, error.message +
                          ": somebody changed the policy meanwhile; read /v1/policies/current and "
                          "compare before the next try");
}

// "current" is the newest version, readable or not.
Task<Result<Response>> show(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  const std::string& which = request.params[0];
  int64_t version = 0;
  if (which != "current") {
    const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), version);
    if (error != std::errc() || end != which.data() + which.size() || version < 1) {
      co_return fail(Code::kNotFound, "there is no such version; give its number, or current");
    }
  }
  const store::PolicyVersion found = CO_TRY(service->get(version));
  json::object answer = toJsonObject(found, service->version());
  answer["document"] = base::isUtf8(found.document) ? json::value(found.document) : nullptr;
  co_return jsonResponse(200, answer).with("ETag", tagOf(found.version));
}

// The effect of applying the document, in the form of :diff.
Task<Result<Response>> tryOut(orchestrator::PolicyService& service, const Request& request,
                              std::string document, std::optional<int64_t> recent) {
  const std::vector<std::string> warnings = service.warnings(document);
  json::object question{{"document", std::move(document)}, {"recent", recent.value_or(0)}};
  auto diff = co_await service.diff(request.principal, std::move(question));
  if (!diff) co_return ofDocument(std::move(diff).error());
  co_return jsonResponse(200,
                         json::object{{"dry_run", true},
                                      {"diff", *std::move(diff)},
                                      {"warnings", json::array(warnings.begin(), warnings.end())}});
}

Task<Result<Response>> apply(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  base::ObjectReader reader(body, "");
  store::NewPolicy wanted;
  const auto document = CO_TRY(reader.text("document"));
  if (!document) co_return fail(Code::kInvalid, "document: is required", "document");
  wanted.policy.document = *document;
  wanted.policy.name = CO_TRY(shortText(reader, "name", kMaxName));
  if (wanted.policy.name.empty()) wanted.policy.name = "policy";
  wanted.policy.note = CO_TRY(shortText(reader, "note", kMaxNote));
  const auto in_body = CO_TRY(reader.integer("expected_version", 0, INT64_MAX));
  const bool dry_run = CO_TRY(reader.boolean("dry_run")).value_or(false);
  const auto recent = CO_TRY(reader.integer("recent", 0, service->config().replay));
  CO_TRY(reader.finish());
  if (dry_run) co_return co_await tryOut(*service, request, *document, recent);
  if (recent) co_return fail(Code::kInvalid, "recent: only with dry_run", "recent");
  const Expected expected = CO_TRY(expectedIn(request, in_body));
  wanted.expected = expected.version;
  auto applied = co_await service->apply(request.principal, std::move(wanted));
  if (!applied && applied.error().code == Code::kConflict) {
    co_return refusedChange(expected, std::move(applied).error());
  }
  if (!applied) co_return ofDocument(std::move(applied).error());
  co_return inForce(*service, *applied);
}

Task<Result<Response>> rollBack(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  base::ObjectReader reader(body, "");
  const auto version = CO_TRY(reader.integer("version", 1, INT64_MAX));
  const auto in_body = CO_TRY(reader.integer("expected_version", 0, INT64_MAX));
  std::string note = CO_TRY(shortText(reader, "note", kMaxNote));
  CO_TRY(reader.finish());
  if (!version) co_return fail(Code::kInvalid, "version: is required", "version");
  const Expected expected = CO_TRY(expectedIn(request, in_body));
  auto made =
      co_await service->rollBack(request.principal, *version, expected.version, std::move(note));
  if (!made) co_return refusedChange(expected, std::move(made).error());
  co_return inForce(*service, *made);
}

Task<Result<Response>> check(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  co_return jsonResponse(200, CO_TRY(service->check(body)));
}

Task<Result<Response>> explain(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  co_return jsonResponse(200,
                         CO_TRY(co_await service->explain(request.principal, std::move(body))));
}

Task<Result<Response>> explainEgress(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  co_return jsonResponse(
      200, CO_TRY(co_await service->explainEgress(request.principal, std::move(body))));
}

Task<Result<Response>> test(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  co_return jsonResponse(200, CO_TRY(service->test(request.principal, body)));
}

Task<Result<Response>> diff(RestParts& parts, Request& request) {
  auto* service = CO_TRY(serviceOf(parts));
  json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  co_return jsonResponse(200, CO_TRY(co_await service->diff(request.principal, std::move(body))));
}

}  // namespace

std::vector<Route> policyRoutes(RestParts& parts) {
  const auto route = [&parts](std::string_view method, std::string_view pattern,
                              Permission permission, auto handler) {
    return Route{.method = method,
                 .pattern = pattern,
                 .access = needs(permission),
                 .query = {},
                 .handle = [&parts, handler](Request& request) { return handler(parts, request); },
                 .json_body = method == "POST"};
  };
  std::vector<Route> routes = {
      route("GET", "/v1/policies", Permission::kPolicyApply, list),
      route("GET", "/v1/policies/{version}", Permission::kPolicyApply, show),
      route("POST", "/v1/policies", Permission::kPolicyApply, apply),
      route("POST", "/v1/policies:rollback", Permission::kPolicyApply, rollBack),
      route("POST", "/v1/policies:check", Permission::kPolicyRead, check),
      route("POST", "/v1/policies:explain", Permission::kPolicyRead, explain),
      route("POST", "/v1/egress:explain", Permission::kPolicyRead, explainEgress),
      route("POST", "/v1/policies:test", Permission::kPolicyRead, test),
      route("POST", "/v1/policies:diff", Permission::kPolicyApply, diff),
  };
  routes.front().query = {"limit", "cursor"};
  return routes;
}

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// /v1/keys: API keys. The secret is in the answer to its creation and nowhere else.
#include <algorithm>

#include "api/rest/awaiting.h"
#include "api/rest/rest.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr size_t kMaxLabel = 128;
constexpr size_t kMaxBody = 16'384;
constexpr int64_t kMaxLifeSeconds = int64_t{10} * 365 * 24 * 3600;

json::value timeOrNull(int64_t wall_micros) {
  return wall_micros == 0 ? json::value(nullptr) : json::value(base::formatTime(wall_micros));
}

std::string_view roleName(model::Role role) {
  return role == model::Role::kAdmin ? "admin" : "agent";
}

json::object toJsonObject(const store::KeyRecord& key) {
  return {{"id", key.id},
          {"name", key.name},
          {"tenant", key.principal.tenant},
          {"app", key.principal.app},
          {"agent", key.principal.agent},
          {"user", key.principal.user},
          {"role", roleName(key.principal.role)},
          {"created_at", timeOrNull(key.created_at)},
          {"expires_at", timeOrNull(key.expires_at)},
          {"revoked_at", timeOrNull(key.revoked_at)}};
}

Result<std::string> label(base::ObjectReader& reader, std::string_view name) {
  std::string text = TRY(reader.text(name)).value_or("");
  const auto control = [](char c) { return static_cast<uint8_t>(c) < ' ' || c == 0x7f; };
  if (text.size() > kMaxLabel || std::ranges::any_of(text, control)) {
    return fail(Code::kInvalid,
                std::string(name) + ": must be at most 128 bytes without control characters",
                std::string(name));
  }
  return text;
}

struct KeyRequest {
  std::string name;
  model::Principal principal;
  int64_t expires_at = 0;
};

Result<KeyRequest> parseKeyRequest(std::string_view body) {
  const json::value value = TRY(base::parseJson(body, {.max_bytes = kMaxBody, .max_depth = 4}));
  if (!value.is_object()) return fail(Code::kInvalid, "request body: must be a JSON object");
  base::ObjectReader reader(value.get_object(), "");
  KeyRequest key;
  key.name = TRY(label(reader, "name"));
  if (key.name == auth::kAdminKeyName) {
    return fail(Code::kInvalid, "name: is kept for the key of the state directory", "name");
  }
  key.principal.tenant = TRY(label(reader, "tenant"));
  key.principal.app = TRY(label(reader, "app"));
  key.principal.agent = TRY(label(reader, "agent"));
  key.principal.user = TRY(label(reader, "user"));
  const std::string role = TRY(reader.text("role")).value_or("agent");
  const auto seconds = TRY(reader.integer("expires_in_seconds", 1, kMaxLifeSeconds));
  TRY(reader.finish());
  if (key.principal.tenant.empty()) return fail(Code::kInvalid, "tenant: required", "tenant");
  if (role != "agent" && role != "admin") {
    return fail(Code::kInvalid, "role: must be agent or admin", "role");
  }
  key.principal.role = role == "admin" ? model::Role::kAdmin : model::Role::kAgent;
  if (seconds) key.expires_at = base::wallMicros() + *seconds * 1'000'000;
  return key;
}

Task<Result<Response>> create(RestParts& parts, Request& request) {
  const KeyRequest wanted = CO_TRY(parseKeyRequest(request.body));
  auth::NewKey key = auth::makeKey(wanted.principal, wanted.name, wanted.expires_at);
  const store::KeyRecord record = key.record;
  const model::AuditEvent event{.action = "key.created",
                                .subject = record.id,
                                .principal = request.principal,
                                .details = {{"name", record.name},
                                            {"tenant", record.principal.tenant},
                                            {"role", roleName(record.principal.role)}}};
  auto stored = co_await committed<void>(
      [&](auto done) { parts.store.putKey(record, event, std::move(done)); });
  if (!stored) co_return std::unexpected(stored.error());
  json::object answer = toJsonObject(record);
  answer["secret"] = key.secret;
  co_return jsonResponse(201, answer).with("Location", "/v1/keys/" + record.id);
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const auto keys = CO_TRY(parts.store.keys(store::Scope::of(request.principal)));
  json::array items;
  for (const store::KeyRecord& key : keys)
    items.push_back(toJsonObject(key));
  co_return jsonResponse(200, json::object{{"keys", std::move(items)}});
}

Task<Result<Response>> revoke(RestParts& parts, Request& request) {
  const model::AuditEvent event{.action = "key.revoked",
                                .subject = request.params[0],
                                .principal = request.principal,
                                .details = {}};
  auto revoked = co_await committed<void>([&](auto done) {
    parts.store.revokeKey(store::Scope::of(request.principal), request.params[0], event,
                          std::move(done));
  });
  parts.authenticator.forget();
  if (!revoked) co_return std::unexpected(revoked.error());
  Response response;
  response.status = 204;
  co_return response;
}

}  // namespace

std::vector<Route> keyRoutes(RestParts& parts) {
  return {{.method = "POST",
           .pattern = "/v1/keys",
           .access = Access::kAdmin,
           .query = {},
           .handle = [&parts](Request& request) { return create(parts, request); },
           .json_body = true},
          {.method = "GET",
           .pattern = "/v1/keys",
           .access = Access::kAdmin,
           .query = {},
           .handle = [&parts](Request& request) { return list(parts, request); }},
          {.method = "DELETE",
           .pattern = "/v1/keys/{id}",
           .access = Access::kAdmin,
           .query = {},
           .handle = [&parts](Request& request) { return revoke(parts, request); }}};
}

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// /v1/keys: API keys. Only the answers to creation and rotation have the secret. /v1/whoami: the
// identity and the permissions of a credential. /.well-known/oauth-protected-resource: the source
// of tokens.
#include "store/rows/keys.h"

#include <algorithm>
#include <map>

#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "async/awaiting.h"
#include "orchestrator/core/ledger.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr size_t kMaxLabel = 128;
constexpr size_t kMaxBody = 16'384;
constexpr size_t kMaxNetworks = 32;
constexpr size_t kMaxRoles = 7;
constexpr int64_t kMicros = 1'000'000;
constexpr int64_t kMaxLifeSeconds = int64_t{10} * 365 * 24 * 3600;
constexpr int64_t kOverlapSeconds = 24 * 3600;
constexpr int64_t kMaxOverlapSeconds = 30 * kOverlapSeconds;

json::value timeOrNull(int64_t wall_micros) {
  return wall_micros == 0 ? json::value(nullptr) : json::value(base::formatTime(wall_micros));
}

json::array toJsonArray(const std::vector<std::string_view>& names) {
  return json::array(names.begin(), names.end());
}

json::array toJsonArray(const std::vector<base::Network>& networks) {
  json::array out;
  for (const base::Network& network : networks)
    out.emplace_back(network.text());
  return out;
}

// `replaced_by`: the keys made by rotations of the key.
json::object toJsonObject(const store::KeyRecord& key, json::array replaced_by = {}) {
  return {{"id", key.id},
          {"name", key.name},
          {"tenant", key.principal.tenant},
          {"app", key.principal.app},
          {"agent", key.principal.agent},
          {"user", key.principal.user},
          {"roles", toJsonArray(model::names(key.principal.roles))},
          {"networks", toJsonArray(key.networks)},
          {"created_at", timeOrNull(key.created_at)},
          {"expires_at", timeOrNull(key.expires_at)},
          {"last_used_at", timeOrNull(key.last_used_at)},
          {"revoked_at", timeOrNull(key.revoked_at)},
          {"replaces", key.replaces.empty() ? json::value(nullptr) : json::value(key.replaces)},
          {"replaced_by", std::move(replaced_by)}};
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

// The key's holder: an invisible space must not distinguish two holders.
Result<std::string> holder(base::ObjectReader& reader, std::string_view name) {
  constexpr std::string_view kSpaces[] = {" ",      "\u00a0", "\u1680", "\u2000", "\u2001",
                                          "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
                                          "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                          "\u2029", "\u202f", "\u205f", "\u3000", "\u0085"};
  std::string text = TRY(label(reader, name));
  const bool spaced = std::ranges::any_of(kSpaces, [&](std::string_view space) {
    return text.starts_with(space) || text.ends_with(space);
  });
  if (!spaced) return text;
  return fail(
      Code::kInvalid,
      std::string(name) + ": must neither begin nor end with white space; send the name without it",
      std::string(name));
}

Result<std::vector<std::string>> texts(base::ObjectReader& reader, std::string_view name,
                                       size_t most) {
  std::vector<std::string> out;
  const json::array* items = TRY(reader.array(name));
  if (items == nullptr) return out;
  for (const json::value& item : *items) {
    if (!item.is_string() || items->size() > most) {
      return fail(
          Code::kInvalid,
          std::string(name) + ": must be a list of at most " + std::to_string(most) + " texts",
          std::string(name));
    }
    out.emplace_back(item.get_string());
  }
  return out;
}

struct KeyRequest {
  std::string name;
  model::Principal principal;
  int64_t expires_at = 0;
  std::vector<base::Network> networks;
  auth::KeyFormat format = auth::KeyFormat::kCloister;
};

Result<auth::KeyFormat> readFormat(base::ObjectReader& reader) {
  const auto name = TRY(reader.text("format"));
  const auto format = auth::keyFormatFromName(name.value_or("cloister"));
  if (format) return *format;
  return fail(Code::kInvalid, "format: must be cloister or e2b", "format");
}

Result<model::Roles> readRoles(base::ObjectReader& reader) {
  std::vector<std::string> names = TRY(texts(reader, "roles", kMaxRoles));
  if (const auto one = TRY(reader.text("role"))) {
    if (!names.empty()) return fail(Code::kInvalid, "role: not together with roles", "role");
    if (!model::roleFromName(*one)) {
      return fail(Code::kInvalid,
                  "role: must be viewer, agent, operator, approver, tenant-admin, admin or metrics",
                  "role");
    }
    names.push_back(*one);
  }
  if (names.empty()) return model::Roles(model::Role::kAgent);
  const model::Roles roles = TRY(model::rolesFromNames(names));
  TRY(model::goTogether(roles));
  return roles;
}

Result<std::vector<base::Network>> readNetworks(base::ObjectReader& reader) {
  std::vector<base::Network> networks;
  for (const std::string& text : TRY(texts(reader, "networks", kMaxNetworks))) {
    auto network = base::Network::parse(text);
    if (!network) {
      return fail(Code::kInvalid, "networks: " + network.error().message, "networks");
    }
    networks.push_back(*network);
  }
  return networks;
}

Result<KeyRequest> parseKeyRequest(const model::Principal& maker, std::string_view body) {
  const json::value value = TRY(base::parseJson(body, {.max_bytes = kMaxBody, .max_depth = 4}));
  if (!value.is_object()) return fail(Code::kInvalid, "request body: must be a JSON object");
  base::ObjectReader reader(value.get_object(), "");
  KeyRequest key;
  key.name = TRY(label(reader, "name"));
  if (key.name == auth::kAdminKeyName) {
    return fail(Code::kInvalid, "name: is kept for the key of the state directory", "name");
  }
  key.principal.tenant = TRY(holder(reader, "tenant"));
  key.principal.app = TRY(holder(reader, "app"));
  key.principal.agent = TRY(holder(reader, "agent"));
  key.principal.user = TRY(holder(reader, "user"));
  if (key.principal.isOwn()) {
    return fail(Code::kInvalid,
                "tenant, agent: names that begin with \"cloister.\" are the service's own; use "
                "another name",
                key.principal.tenant.starts_with(model::kOwnNames) ? "tenant" : "agent");
  }
  key.principal.roles = TRY(readRoles(reader));
  key.networks = TRY(readNetworks(reader));
  key.format = TRY(readFormat(reader));
  const auto seconds = TRY(reader.integer("expires_in_seconds", 1, kMaxLifeSeconds));
  TRY(reader.finish());
  if (key.principal.tenant.empty() && !maker.isAdmin()) key.principal.tenant = maker.tenant;
  if (key.principal.tenant.empty()) return fail(Code::kInvalid, "tenant: required", "tenant");
  if (seconds) key.expires_at = base::wallMicros() + *seconds * kMicros;
  return key;
}

// A maker gives no more than its own: tenant, roles, and for a key also networks and life.
Result<> mayMake(RestParts& parts, const model::Principal& maker, const KeyRequest& wanted) {
  if (!maker.isAdmin() && wanted.principal.tenant != maker.tenant) {
    return fail(Code::kDenied, "tenant: a key is made for your own tenant", "tenant");
  }
  if (!model::mayGive(maker.roles).hasAll(wanted.principal.roles)) {
    return fail(Code::kDenied,
                "roles: you may give " + model::toText(model::mayGive(maker.roles)) +
                    ", and manage the keys that have those",
                "roles");
  }
  const auto own = parts.store.key(store::Scope::of(maker), maker.key_id);
  if (!own) return {};  // a token: without a key's networks and life
  if (own->expires_at != 0 && (wanted.expires_at == 0 || wanted.expires_at > own->expires_at)) {
    return fail(Code::kDenied, "expires_in_seconds: it would outlive your own key",
                "expires_in_seconds");
  }
  const auto within = [&](const base::Network& network) {
    return std::ranges::any_of(own->networks,
                               [&](const base::Network& mine) { return mine.contains(network); });
  };
  if (!own->networks.empty() &&
      (wanted.networks.empty() || !std::ranges::all_of(wanted.networks, within))) {
    return fail(Code::kDenied, "networks: must lie within those of your own key", "networks");
  }
  return {};
}

model::AuditEvent eventOf(std::string action, const Request& request,
                          const store::KeyRecord& record) {
  return {.action = std::move(action),
          .subject = record.id,
          .principal = request.principal,
          .details = {{"name", record.name},
                      {"tenant", record.principal.tenant},
                      {"roles", toJsonArray(model::names(record.principal.roles))}}};
}

Response createdKey(const auth::NewKey& key) {
  json::object answer = toJsonObject(key.record);
  answer["secret"] = key.secret;
  return jsonResponse(201, answer).with("Location", "/v1/keys/" + key.record.id);
}

Task<Result<Response>> create(RestParts& parts, Request& request) {
  const KeyRequest wanted = CO_TRY(parseKeyRequest(request.principal, request.body));
  CO_TRY(mayMake(parts, request.principal, wanted));
  auth::NewKey key = auth::makeKey(wanted.principal, wanted.name, wanted.expires_at, wanted.format);
  key.record.networks = wanted.networks;
  auto stored = co_await orchestrator::Ledger(parts.store)
                    .write(store::putKey, key.record, eventOf("key.created", request, key.record));
  if (!stored) co_return std::unexpected(stored.error());
  co_return createdKey(key);
}

// The key of the path, if the requester may manage the key.
Result<store::KeyRecord> managed(RestParts& parts, const Request& request) {
  store::KeyRecord key =
      TRY(parts.store.key(store::Scope::of(request.principal), request.params[0]));
  if (!model::mayGive(request.principal.roles).hasAll(key.principal.roles)) {
    return fail(Code::kDenied,
                "this key has roles that you may not give: " + model::toText(key.principal.roles));
  }
  return key;
}

Task<Result<Response>> rotate(RestParts& parts, Request& request) {
  const store::KeyRecord old = CO_TRY(managed(parts, request));
  if (old.name == auth::kAdminKeyName) {
    co_return fail(Code::kConflict,
                   "this is the key in admin.key: to rotate it, remove that file and start again");
  }
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  base::ObjectReader reader(body, "");
  const auto overlap = CO_TRY(reader.integer("overlap_seconds", 0, kMaxOverlapSeconds));
  const auto seconds = CO_TRY(reader.integer("expires_in_seconds", 1, kMaxLifeSeconds));
  const auth::KeyFormat format = CO_TRY(readFormat(reader));
  CO_TRY(reader.finish());
  const int64_t now = base::wallMicros();
  // Unless the request says otherwise, the new key has the original life of the old key, which an
  // earlier rotation may have shortened.
  const int64_t life = old.given_expires_at == 0 ? 0 : old.given_expires_at - old.created_at;
  KeyRequest wanted{.name = old.name,
                    .principal = old.principal,
                    .expires_at = life == 0 ? 0 : now + life,
                    .networks = old.networks,
                    .format = format};
  if (seconds) wanted.expires_at = now + *seconds * kMicros;
  CO_TRY(mayMake(parts, request.principal, wanted));
  auth::NewKey key = auth::makeKey(wanted.principal, wanted.name, wanted.expires_at, wanted.format);
  key.record.networks = wanted.networks;
  key.record.replaces = old.id;
  model::AuditEvent event = eventOf("key.rotated", request, key.record);
  event.details["replaces"] = old.id;
  auto stored = co_await orchestrator::Ledger(parts.store)
                    .write(store::rotateKey, store::Scope::of(request.principal), key.record,
                           now + overlap.value_or(kOverlapSeconds) * kMicros, event);
  parts.authenticator.forget();
  if (!stored) co_return std::unexpected(stored.error());
  co_return createdKey(key);
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const auto keys = CO_TRY(parts.store.keys(store::Scope::of(request.principal)));
  std::map<std::string, json::array> successors;
  for (const store::KeyRecord& key : keys) {
    if (!key.replaces.empty()) successors[key.replaces].emplace_back(key.id);
  }
  json::array items;
  for (const store::KeyRecord& key : keys)
    items.push_back(toJsonObject(key, std::move(successors[key.id])));
  co_return jsonResponse(200, json::object{{"keys", std::move(items)}});
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const store::KeyRecord key =
      CO_TRY(parts.store.key(store::Scope::of(request.principal), request.params[0]));
  const auto after =
      CO_TRY(parts.store.successors(key.id, base::wallMicros(), store::kMostSuccessors));
  json::array replaced_by;
  for (const store::KeyRecord& each : after) {
    if (each.replaces == key.id) replaced_by.emplace_back(each.id);
  }
  co_return jsonResponse(200, toJsonObject(key, std::move(replaced_by)));
}

Task<Result<Response>> revoke(RestParts& parts, Request& request) {
  const store::KeyRecord key = CO_TRY(managed(parts, request));
  auto revoked = co_await orchestrator::Ledger(parts.store)
                     .write(store::revokeKey, store::Scope::of(request.principal), key.id,
                            eventOf("key.revoked", request, key));
  parts.authenticator.forget();
  if (!revoked) co_return std::unexpected(revoked.error());
  co_return noContent();
}

Task<Result<Response>> whoami(RestParts& parts, Request& request) {
  co_return jsonResponse(200, whoamiOf(parts, request.principal));
}

// RFC 9728 §3.2. The content depends on the configuration alone.
Task<Result<Response>> metadata(RestParts& parts, std::string_view suffix) {
  const auth::AuthOptions& options = parts.authenticator.options();
  if (options.resource.empty()) {
    co_return fail(Code::kNotFound, "no identity provider is configured (auth.oidc.issuer)");
  }
  co_return jsonResponse(200, json::object{{"resource", options.resource + std::string(suffix)},
                                           {"authorization_servers", json::array{options.issuer}},
                                           {"bearer_methods_supported", json::array{"header"}},
                                           {"resource_name", "Cloister"}});
}

}  // namespace

json::object whoamiOf(const RestParts& parts, const model::Principal& who) {
  std::vector<std::string_view> permissions;
  for (const model::Grant& grant : model::grants()) {
    if (who.may(grant.permission)) permissions.push_back(grant.name);
  }
  const auto key = parts.store.key(store::Scope::of(who), who.key_id);
  return {{"tenant", who.tenant},
          {"app", who.app},
          {"agent", who.agent},
          {"user", who.user},
          {"roles", toJsonArray(model::names(who.roles))},
          {"permissions", toJsonArray(permissions)},
          {"credential", who.key_id},
          {"networks", key ? toJsonArray(key->networks) : json::array()},
          {"expires_at", key ? timeOrNull(key->expires_at) : json::value(nullptr)}};
}

std::vector<Route> keyRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "POST",
           .pattern = "/v1/keys",
           .access = needs(Permission::kKeyManage),
           .query = {},
           .handle = with(create),
           .json_body = true},
          {.method = "GET",
           .pattern = "/v1/keys",
           .access = needs(Permission::kKeyRead),
           .query = {},
           .handle = with(list)},
          {.method = "GET",
           .pattern = "/v1/keys/{id}",
           .access = needs(Permission::kKeyRead),
           .query = {},
           .handle = with(show)},
          {.method = "POST",
           .pattern = "/v1/keys/{id}:rotate",
           .access = needs(Permission::kKeyManage),
           .query = {},
           .handle = with(rotate),
           .json_body = true},
          {.method = "DELETE",
           .pattern = "/v1/keys/{id}",
           .access = needs(Permission::kKeyManage),
           .query = {},
           .handle = with(revoke)},
          {.method = "GET",
           .pattern = "/.well-known/oauth-protected-resource",
           .access = anyone(),
           .query = {},
           .handle = [&parts](Request&) { return metadata(parts, ""); }},
          {.method = "GET",
           .pattern = "/.well-known/oauth-protected-resource/mcp",
           .access = anyone(),
           .query = {},
           .handle = [&parts](Request&) { return metadata(parts, "/mcp"); }},
          {.method = "GET",
           .pattern = "/v1/whoami",
           .access = needs(Permission::kServiceRead),
           .query = {},
           .handle = with(whoami)}};
}

}  // namespace cloister::api

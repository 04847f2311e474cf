// SPDX-License-Identifier: Apache-2.0
// /v1/secrets: secrets of the caller's tenant. No answer, record or error has a value.
#include "store/rows/secrets.h"

#include <utility>

#include "api/rest/requests.h"
#include "model/secret.h"
#include "orchestrator/core/ledger.h"
#include "redact/matcher.h"

namespace cloister::api {
namespace {

namespace json = base::json;

json::value shownTime(int64_t wall_micros) {
  return wall_micros == 0 ? json::value(nullptr) : json::value(base::formatTime(wall_micros));
}

json::object secretObject(const store::SecretInfo& secret) {
  return {{"name", secret.name},
          {"version", secret.version},
          {"created_at", shownTime(secret.created_at)},
          {"updated_at", shownTime(secret.updated_at)},
          {"updated_by", secret.updated_by},
          {"expires_at", shownTime(secret.expires_at)},
          {"last_used_at", shownTime(secret.last_used_at)}};
}

Result<store::SecretName> secretNamed(const Request& request) {
  const std::string& name = request.params[0];
  if (model::isSecretName(name)) return store::SecretName{request.principal.tenant, name};
  return fail(Code::kInvalid,
              "url.name: must be a letter, and then letters, digits, \"_\", \"-\" and \".\", at "
              "most 64 bytes in all",
              "url.name");
}

Result<std::string> readValue(base::ObjectReader& reader) {
  auto value = TRY(reader.text("value"));
  if (!value) return fail(Code::kInvalid, "value: is required", "value");
  if (value->size() < redact::kMinSecretBytes) {
    return fail(Code::kInvalid,
                "value: must have at least " + std::to_string(redact::kMinSecretBytes) +
                    " bytes; shorter texts occur by chance, so they could not be kept out of "
                    "output",
                "value");
  }
  if (value->size() > model::kMaxSecretBytes) {
    return fail(Code::kTooLarge,
                "value: must have at most " + std::to_string(model::kMaxSecretBytes) + " bytes",
                "value");
  }
  return *std::move(value);
}

// 0: never.
Result<int64_t> readExpiry(base::ObjectReader& reader, int64_t now) {
  const json::value* given = reader.any("expires_at");
  if (given == nullptr) return 0;
  const json::string* text = given->if_string();
  const auto time = text == nullptr ? std::nullopt : base::parseTime(std::string_view(*text));
  if (!time) {
    return fail(Code::kInvalid,
                "expires_at: must be a time such as 2030-01-31T00:00:00Z; leave it out for a "
                "secret that does not expire",
                "expires_at");
  }
  if (*time <= now) {
    return fail(Code::kInvalid, "expires_at: must be in the future", "expires_at");
  }
  return *time;
}

model::AuditEvent secretEvent(const char* action, const store::SecretName& of,
                              const model::Principal& by) {
  return {.action = action, .subject = store::secretSubject(of), .principal = by, .details = {}};
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const std::string after = queryText(request, "after").value_or("");
  const auto secrets = CO_TRY(parts.store.secrets().list(request.principal.tenant, after));
  json::array items;
  for (const store::SecretInfo& each : secrets)
    items.push_back(secretObject(each));
  co_return jsonResponse(200, json::object{{"secrets", std::move(items)}});
}

Task<Result<Response>> put(RestParts& parts, Request& request) {
  store::NewSecret secret{
      .of = CO_TRY(secretNamed(request)), .value = {}, .at = base::wallMicros()};
  {
    const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
    base::ObjectReader reader(body, "");
    secret.value = CO_TRY(readValue(reader));
    secret.expires_at = CO_TRY(readExpiry(reader, secret.at));
    CO_TRY(reader.finish());
  }
  request.body.clear();
  request.body_read();
  model::AuditEvent event = secretEvent("secret.set", secret.of, request.principal);
  event.details["expires_at"] = shownTime(secret.expires_at);
  auto stored = co_await orchestrator::Ledger(parts.store)
                    .write(store::putSecret, std::move(secret), parts.secrets_per_tenant, event);
  if (!stored) co_return std::unexpected(std::move(stored).error());
  co_return jsonResponse(200, secretObject(*stored));
}

Task<Result<Response>> remove(RestParts& parts, Request& request) {
  const store::SecretName of = CO_TRY(secretNamed(request));
  auto removed = co_await orchestrator::Ledger(parts.store)
                     .write(store::removeSecret, of, base::wallMicros(),
                            secretEvent("secret.deleted", of, request.principal));
  if (!removed) co_return std::unexpected(std::move(removed).error());
  co_return noContent();
}

}  // namespace

std::vector<Route> secretRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "GET",
           .pattern = "/v1/secrets",
           .access = needs(Permission::kSecretRead),
           .query = {"after"},
           .handle = with(list)},
          {.method = "PUT",
           .pattern = "/v1/secrets/{name}",
           .access = needs(Permission::kSecretManage),
           .query = {},
           .handle = with(put),
           .json_body = true},
          {.method = "DELETE",
           .pattern = "/v1/secrets/{name}",
           .access = needs(Permission::kSecretManage),
           .query = {},
           .handle = with(remove)}};
}

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// /v1/sign-ins: people's sessions of the web interface. Whoever manages a tenant's keys sees them,
// and ends them: a person leaves, or a laptop is lost.
#include <algorithm>

#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/ui_sessions.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr uint32_t kMostShown = 1000;

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::object toJsonObject(const RestParts& parts, const store::UiSession& session) {
  const model::Principal& who = session.principal;
  const auto names = model::names(who.roles);
  return {{"id", session.id},
          {"tenant", who.tenant},
          {"agent", textOrNull(who.agent)},
          {"user", textOrNull(who.user)},
          {"roles", json::array(names.begin(), names.end())},
          {"key_id", session.issuer.empty() ? json::value(who.key_id) : json::value(nullptr)},
          {"issuer", textOrNull(session.issuer.substr(0, session.issuer.find('#')))},
          {"created_at", base::formatTime(session.created_at)},
          {"last_used_at", base::formatTime(session.used_at)},
          {"ends_at", base::formatTime(parts.authenticator.sessions().endOf(session))}};
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const auto found =
      CO_TRY(parts.store.uiSessions(store::Scope::of(request.principal), kMostShown));
  const int64_t now = base::wallMicros();
  json::array items;
  for (const store::UiSession& each : found) {
    if (parts.authenticator.sessions().lasts(each, now)) items.push_back(toJsonObject(parts, each));
  }
  co_return jsonResponse(200, json::object{{"sign_ins", std::move(items)}});
}

Task<Result<Response>> end(RestParts& parts, Request& request) {
  const std::string& id = request.params[0];
  const auto session = CO_TRY(parts.store.uiSession(id));
  const model::Principal& by = request.principal;
  if (!session || (!by.isAdmin() && session->principal.tenant != by.tenant)) {
    co_return fail(Code::kNotFound, "there is no sign-in " + id);
  }
  const model::Principal& who = session->principal;
  if (!model::mayGive(by.roles).hasAll(who.roles)) {
    co_return fail(Code::kDenied,
                   "this person has roles that you may not give: " + model::toText(who.roles));
  }
  auto removed =
      co_await orchestrator::Ledger(parts.store)
          .write(
              store::removeUiSession, id,
              model::AuditEvent{
                  .action = "ui.sign_in_ended",
                  .subject = id,
                  .principal = by,
                  .details = {{"tenant", who.tenant}, {"user", who.user}, {"agent", who.agent}}});
  parts.authenticator.forget();  // the session's streams end now
  if (!removed) co_return std::unexpected(std::move(removed).error());
  Response response;
  response.status = 204;
  co_return response;
}

}  // namespace

std::vector<Route> signInRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "GET",
           .pattern = "/v1/sign-ins",
           .access = needs(Permission::kKeyRead),
           .query = {},
           .handle = with(list)},
          {.method = "DELETE",
           .pattern = "/v1/sign-ins/{id}",
           .access = needs(Permission::kKeyManage),
           .query = {},
           .handle = with(end)}};
}

}  // namespace cloister::api

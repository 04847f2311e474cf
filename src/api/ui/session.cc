// SPDX-License-Identifier: Apache-2.0
// /ui/session: a person signs in by a key, looks at the session, and signs out.
#include <utility>

#include "api/http/cookies.h"
#include "api/ui/ui.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/ui_sessions.h"

namespace cloister::api::ui {
namespace {

namespace json = base::json;

constexpr size_t kMaxBody = 4096;
constexpr std::string_view kKey = "key_";

json::object shown(const UiParts& parts, const model::Principal& who, std::string_view cookie,
                   int64_t ends_at) {
  return {{"principal", whoamiOf(parts.rest, who)},
          {"csrf", auth::csrfOf(cookie)},
          {"expires_at", base::formatTime(ends_at)}};
}

Result<std::string> readKey(std::string_view body) {
  const json::value value = TRY(base::parseJson(body, {.max_bytes = kMaxBody, .max_depth = 2}));
  if (!value.is_object()) return fail(Code::kInvalid, "request body: must be a JSON object");
  base::ObjectReader reader(value.get_object(), "");
  const auto key = TRY(reader.text("key"));
  TRY(reader.finish());
  if (key && !key->empty()) return *key;
  return fail(Code::kInvalid, "key: required, an API key of this service", "key");
}

// A token has its own end, and the provider alone may begin a session for its holder.
Result<> mustBeKey(const auth::Identity& who) {
  if (who.principal.key_id.starts_with(kKey)) return {};
  return fail(Code::kInvalid,
              "key: is a token of the identity provider; sign in at /ui/login, or with an API key",
              "key");
}

Task<Result<Response>> signIn(UiParts& parts, Request& request) {
  CO_TRY(checkSafeWay(request));
  CO_TRY(checkSameOrigin(request));
  const std::string key = CO_TRY(readKey(request.body));
  auto who = co_await parts.rest.authenticator.identify(key, request.peer);
  if (!who) {
    if (who.error().code == Code::kUnauthorized) {
      co_await noteRefusal(parts, request, "key", "unknown, expired or revoked key");
    }
    co_return std::unexpected(who.error());
  }
  CO_TRY(mustBeKey(*who));
  auth::NewWebSession made = parts.rest.authenticator.sessions().ofKey(who->principal);
  json::object body = shown(parts, who->principal, made.cookie, made.session.ends_at);
  Response response = jsonResponse(201, body);
  CO_TRY(co_await beginSession(parts, request, std::move(made), "key", response));
  co_return response;
}

Task<Result<Response>> look(UiParts& parts, Request& request) {
  const std::string cookie = CO_TRY(sessionCookie(request, Cookie::kTaken));
  const auto who =
      CO_TRY(parts.rest.authenticator.identifyCookie(cookie, request.peer, isAttended(request)));
  const auto session = CO_TRY(parts.rest.store.uiSession(who.session));
  if (!session) co_return auth::refused();
  const int64_t ends_at = parts.rest.authenticator.sessions().endOf(*session);
  co_return jsonResponse(200, shown(parts, who.principal, cookie, ends_at));
}

// Ends the session of a cookie, if there is one.
Task<Result<>> endSessionOf(UiParts& parts, const Request& request, const std::string& cookie,
                            std::string_view why) {
  auto session = parts.rest.authenticator.sessions().find(cookie);
  if (!session) co_return Result<>();
  co_return co_await endSession(parts, request, *std::move(session), why);
}

Task<Result<Response>> signOut(UiParts& parts, Request& request) {
  const std::string cookie = CO_TRY(sessionCookie(request, Cookie::kTaken));
  if (cookie.empty()) co_return auth::refused();
  CO_TRY(co_await endSessionOf(parts, request, cookie, "signed out"));
  Response response;
  response.status = 204;
  response.with("Set-Cookie", setCookie(request, sessionCookieName(request), "", "Strict", 0));
  co_return response;
}

Task<Result<Response>> config(UiParts& parts, Request& request) {
  co_return jsonResponse(
      200, json::object{{"oidc", parts.rest.authenticator.options().sign_in != nullptr},
                        {"base_path", request.base_path},
                        {"version", parts.rest.version}});
}

}  // namespace

Result<> checkSafeWay(const Request& request) {
  if (mayHaveCookies(request)) return {};
  return fail(Code::kDenied,
              "signing in needs HTTPS, or http://localhost on this machine: set tls.certificate, "
              "or list the reverse proxy that speaks HTTPS in http.trusted_proxies");
}

Task<Result<>> endSession(UiParts& parts, const Request& request, store::UiSession session,
                          std::string_view why) {
  model::Principal who = std::move(session.principal);
  who.request = request.id;
  auto removed = co_await orchestrator::Ledger(parts.rest.store)
                     .write(store::removeUiSession, session.id,
                            model::AuditEvent{.action = "ui.signed_out",
                                              .subject = session.id,
                                              .principal = std::move(who),
                                              .details = {{"reason", why}}});
  parts.rest.authenticator.forget();  // the session's streams end now
  co_return removed;
}

Task<Result<>> beginSession(UiParts& parts, Request& request, auth::NewWebSession made,
                            const std::string& by, Response& response) {
  const std::string older = cookieNamed(request, sessionCookieName(request));
  if (!older.empty()) CO_TRY(co_await endSessionOf(parts, request, older, "signed in again"));
  model::Principal who = made.session.principal;
  who.request = request.id;
  const model::AuditEvent event{
      .action = "ui.signed_in",
      .subject = made.session.id,
      .principal = std::move(who),
      .details = {{"by", by}, {store::kSessionRights, rightsOf(made.session)}}};
  const auto room = parts.rest.authenticator.sessions().room();
  CO_TRY(co_await orchestrator::Ledger(parts.rest.store)
             .write(store::putUiSession, made.session, room, event));
  response.with("Set-Cookie", setCookie(request, sessionCookieName(request), made.cookie, "Strict",
                                        std::nullopt));
  co_return Result<>();
}

Task<void> noteRefusal(UiParts& parts, const Request& request, const std::string& by,
                       const std::string& why) {
  constexpr uint32_t kPerMinute = 60;
  const base::Monotonic now = base::monotonicNow();
  if (now - parts.minute >= std::chrono::minutes(1)) {
    parts.minute = now;
    parts.refusals = 0;
  }
  if (parts.refusals >= kPerMinute) {
    ++parts.unrecorded;
    co_return;
  }
  ++parts.refusals;
  const uint64_t before = std::exchange(parts.unrecorded, 0);
  const model::AuditEvent event{
      .action = "ui.sign_in_refused",
      .subject = request.id,
      .principal = {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""},
      .details = {{"by", by}, {"reason", why}, {"unrecorded_before", before}}};
  std::ignore = co_await orchestrator::Ledger(parts.rest.store).write(store::noteUiRefusal, event);
}

std::vector<Route> sessionRoutes(UiParts& parts) {
  const auto route = [&parts](std::string_view method, std::string_view pattern, auto handler) {
    return Route{.method = method,
                 .pattern = pattern,
                 .access = anyone(),
                 .query = {},
                 .handle = [&parts, handler](Request& request) { return handler(parts, request); }};
  };
  Route begin = route("POST", "/ui/session", signIn);
  begin.json_body = true;
  return {std::move(begin), route("GET", "/ui/session", look),
          route("DELETE", "/ui/session", signOut), route("GET", "/ui/config", config)};
}

}  // namespace cloister::api::ui

// SPDX-License-Identifier: Apache-2.0
// /ui/login and /ui/callback: a person signs in through the OpenID Connect provider.
#include <algorithm>
#include <optional>
#include <vector>

#include "api/http/cookies.h"
#include "api/ui/ui.h"
#include "auth/sign_in.h"
#include "base/id.h"

namespace cloister::api::ui {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr int64_t kLoginSeconds = 600;
constexpr size_t kMaxNext = 1024;
constexpr std::string_view kStart = "/ui/";

Response redirect(std::string to) {
  Response response;
  response.status = 303;
  response.with("Location", std::move(to));
  return response;
}

std::string callbackOf(const Request& request) {
  return request.origin + request.base_path + "/ui/callback";
}

// The path to open after signing in: below /ui/, so that a link cannot lead a person elsewhere.
bool isOurs(std::string_view next) {
  const auto plain = [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '#';
  };
  const std::string_view path = next.substr(0, next.find('?'));
  return next.starts_with(kStart) && next.size() <= kMaxNext && !path.contains("//") &&
         !path.contains("/.") && !lowerCase(path).contains("%2e") &&  // dots to browsers, too
         std::ranges::all_of(next, plain);
}

auth::SignIn* provider(const UiParts& parts) {
  return parts.rest.authenticator.options().sign_in;
}

std::unexpected<Error> none() {
  return fail(Code::kNotFound,
              "no sign-in through a provider is configured (auth.oidc.client_id); sign in with an "
              "API key at /ui/");
}

// A sign-in under way: its secret, the session that the browser had at its begin (as
// auth::WebSessions::referenceTo, "" for none), and the path to open afterwards.
struct Pending {
  std::string secret;
  std::string replaces;
  std::string next;
};

// The cookie has the sign-ins under way in the browser's tabs, the newest first, in so many bytes:
// a browser keeps 4096 of a cookie with its name and attributes.
constexpr size_t kMaxCookie = 3'500;
constexpr char kBetween = ':';

// The text before the next dot, or all of it; `text` goes on after the dot.
std::string takePart(std::string_view& text) {
  const size_t dot = std::min(text.find('.'), text.size());
  const std::string part(text.substr(0, dot));
  text.remove_prefix(std::min(dot + 1, text.size()));
  return part;
}

std::optional<Pending> readPending(std::string_view text) {
  std::string secret = takePart(text);
  std::string replaces = takePart(text);
  auto next = percentDecode(text, false);
  if (secret.size() != 2 * kSecretBytes || !next || !isOurs(*next)) return std::nullopt;
  return Pending{
      .secret = std::move(secret), .replaces = std::move(replaces), .next = *std::move(next)};
}

std::vector<Pending> pendingOf(const Request& request) {
  const std::string cookie = cookieNamed(request, loginCookieName(request));
  std::vector<Pending> all;
  for (size_t at = 0; at < cookie.size();) {
    const size_t end = std::min(cookie.find(kBetween, at), cookie.size());
    if (auto pending = readPending(std::string_view(cookie).substr(at, end - at)))
      all.push_back(*std::move(pending));
    at = end + 1;
  }
  return all;
}

// Lax: the provider's redirect comes from another site, and must still carry the cookie.
std::string cookieOf(const Request& request, const std::vector<Pending>& all) {
  std::string text;
  for (const Pending& each : all) {
    const std::string one = each.secret + "." + each.replaces + "." + percentEncode(each.next);
    if (!text.empty() && text.size() + 1 + one.size() > kMaxCookie) break;
    text += (text.empty() ? "" : std::string(1, kBetween)) + one;
  }
  return setCookie(request, loginCookieName(request), text, "Lax",
                   text.empty() ? 0 : kLoginSeconds);
}

// Takes the sign-in that the provider answers.
std::optional<Pending> takeAnswered(const Request& request, std::vector<Pending>& all) {
  const std::string state = queryText(request, "state").value_or("");
  const auto found = std::ranges::find_if(
      all, [&](const Pending& each) { return auth::isAnswerTo(each.secret, state); });
  if (found == all.end()) return std::nullopt;
  Pending taken = std::move(*found);
  all.erase(found);
  return taken;
}

// The browser's session. The cookie of a session is Strict, so it comes with this request of a page
// of ours, and does not come with the provider's redirect.
std::string presentSession(UiParts& parts, const Request& request) {
  auth::WebSessions& sessions = parts.rest.authenticator.sessions();
  const auto session = sessions.find(cookieNamed(request, sessionCookieName(request)), false);
  return session ? auth::WebSessions::referenceTo(*session) : "";
}

Task<Result<Response>> login(UiParts& parts, Request& request) {
  if (provider(parts) == nullptr) co_return none();
  CO_TRY(checkSafeWay(request));
  const std::string next = queryText(request, "next").value_or(std::string(kStart));
  if (!isOurs(next)) {
    co_return fail(Code::kInvalid,
                   "query parameter next: must be a path below /ui/, as /ui/approvals",
                   "query.next");
  }
  const std::string secret = base::randomHex(kSecretBytes);
  std::string to = CO_TRY(co_await provider(parts)->begin(secret, callbackOf(request)));
  std::vector<Pending> all = pendingOf(request);
  all.insert(all.begin(),
             Pending{.secret = secret, .replaces = presentSession(parts, request), .next = next});
  Response response = redirect(std::move(to));
  response.with("Set-Cookie", cookieOf(request, all));
  co_return response;
}

// The reasons that the interface tells a person; details are in the log and the audit log.
std::string_view reasonOf(const Error& error) {
  if (error.code == Code::kDenied) return "denied";
  return error.code == Code::kUnauthorized ? "failed" : "unavailable";
}

Task<Result<>> finish(UiParts& parts, Request& request, const Pending& pending,
                      Response& response) {
  if (queryText(request, "error")) {
    co_return fail(Code::kDenied, "the identity provider refused");
  }
  const auth::CodeAnswer answer{.code = queryText(request, "code").value_or(""),
                                .state = queryText(request, "state").value_or(""),
                                .issuer = queryText(request, "iss").value_or("")};
  auto user = CO_TRY(co_await provider(parts)->finish(pending.secret, callbackOf(request), answer));
  auth::Authenticator& authenticator = parts.rest.authenticator;
  auth::NewWebSession made = authenticator.sessions().ofUser(user.principal, user.subject);
  const auto replaced = authenticator.sessions().referred(pending.replaces);
  if (replaced) CO_TRY(co_await endSession(parts, request, *replaced, "signed in again"));
  co_return co_await beginSession(parts, request, std::move(made), "oidc", response);
}

Task<Result<Response>> callback(UiParts& parts, Request& request) {
  if (provider(parts) == nullptr) co_return none();
  CO_TRY(checkSafeWay(request));
  auth::Authenticator& authenticator = parts.rest.authenticator;
  CO_TRY(authenticator.mayTry(request.peer));
  std::vector<Pending> all = pendingOf(request);
  const bool known = !all.empty();
  const auto pending = takeAnswered(request, all);
  Response response = redirect(request.base_path + (pending ? pending->next : std::string(kStart)));
  const Result<> done =
      pending ? co_await finish(parts, request, *pending, response) : Result<>(auth::refused());
  if (!done) {
    const bool theirs =
        done.error().code == Code::kUnauthorized || done.error().code == Code::kDenied;
    if (theirs && known) {  // without our cookie nobody has guessed anything
      authenticator.noteWrong(request.peer);
      co_await noteRefusal(parts, request, "oidc", done.error().message);
    }
    response = redirect(request.base_path + std::string(kStart) +
                        "?sign_in=" + std::string(reasonOf(done.error())));
  }
  response.with("Set-Cookie", cookieOf(request, all));  // other tabs may still be at the provider
  co_return response;
}

}  // namespace

std::vector<Route> loginRoutes(UiParts& parts) {
  Route begin{.method = "GET",
              .pattern = "/ui/login",
              .access = anyone(),
              .query = {"next"},
              .handle = [&parts](Request& request) { return login(parts, request); }};
  // A provider may add parameters of its own.
  Route end{.method = "GET",
            .pattern = "/ui/callback",
            .access = anyone(),
            .query = {},
            .handle = [&parts](Request& request) { return callback(parts, request); },
            .any_query = true};
  return {std::move(begin), std::move(end)};
}

}  // namespace cloister::api::ui

// SPDX-License-Identifier: Apache-2.0
#include "api/http/cookies.h"

#include <algorithm>
#include <array>

#include "auth/web_sessions.h"
#include "base/crypto.h"

namespace cloister::api {
namespace {

constexpr auto kSafe = std::to_array<std::string_view>({"GET", "HEAD", "OPTIONS"});

bool isSafe(const Request& request) {
  return std::ranges::find(kSafe, request.method) != kSafe.end();
}

bool isLoopbackName(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool isExactOrigin(const Request& request) {
  return request.count("origin") == 1 && !request.origin.empty() &&
         request.header("origin") == request.origin;
}

Result<> checkSite(const Request& request) {
  if (request.count("sec-fetch-site") == 0) return {};
  if (request.count("sec-fetch-site") == 1 && request.header("sec-fetch-site") == "same-origin") {
    return {};
  }
  return fail(Code::kDenied,
              "Sec-Fetch-Site: the cookie is taken from pages of this service alone; open the web "
              "interface at /ui/, or show a key in Authorization",
              "header.Sec-Fetch-Site");
}

Result<> checkExact(const Request& request) {
  if (isExactOrigin(request)) return {};
  return fail(Code::kDenied,
              "Origin: must be " + request.origin +
                  ", by which the request came; at a reverse proxy list the proxy in "
                  "http.trusted_proxies, so that X-Forwarded-Proto and X-Forwarded-Host count",
              "header.Origin");
}

}  // namespace

bool mayHaveCookies(const Request& request) {
  if (request.origin.starts_with("https://")) return true;
  constexpr std::string_view kPlain = "http://";
  return request.local && request.origin.starts_with(kPlain) &&
         isLoopbackName(hostOf(std::string_view(request.origin).substr(kPlain.size())));
}

std::string_view sessionCookieName(const Request& request) {
  return request.origin.starts_with("https://") ? kSecureSession : kPlainSession;
}

std::string_view loginCookieName(const Request& request) {
  return request.origin.starts_with("https://") ? kSecureLogin : kPlainLogin;
}

std::string cookieNamed(const Request& request, std::string_view name) {
  std::optional<std::string> found;
  for (const Header& header : request.headers) {
    if (header.name != "cookie") continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      const std::string_view pair = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const size_t equals = pair.find('=');
      if (equals == std::string_view::npos || trimmed(pair.substr(0, equals)) != name) continue;
      if (found) return "";
      found = std::string(trimmed(pair.substr(equals + 1)));
    }
  }
  return found.value_or("");
}

std::string setCookie(const Request& request, std::string_view name, std::string_view value,
                      std::string_view same_site, std::optional<int64_t> max_age) {
  std::string text = std::string(name) + "=" + std::string(value) +
                     "; Path=/; HttpOnly; SameSite=" + std::string(same_site);
  if (request.origin.starts_with("https://")) text += "; Secure";
  if (max_age) text += "; Max-Age=" + std::to_string(*max_age);
  return text;
}

Result<> checkCookieUse(const Request& request, std::string_view cookie) {
  TRY(checkSite(request));
  const bool upgrade = request.count("upgrade") > 0;
  if (isSafe(request) && !upgrade) return {};
  TRY(checkExact(request));
  if (isSafe(request)) return {};
  if (request.count(kCsrfHeader) == 1 &&
      base::equalSecret(request.header(kCsrfHeader), auth::csrfOf(cookie))) {
    return {};
  }
  return fail(Code::kDenied,
              "X-CSRF-Token: must be the value of `csrf` from GET /ui/session, beside the cookie",
              "header.X-CSRF-Token");
}

Result<> checkSameOrigin(const Request& request) {
  TRY(checkSite(request));
  return request.count("origin") == 0 ? Result<>() : checkExact(request);
}

Result<std::string> sessionCookie(const Request& request, Cookie rule) {
  if (rule == Cookie::kRefused || !mayHaveCookies(request)) return "";
  if (request.count("authorization") > 0 || request.count("x-api-key") > 0) return "";
  std::string cookie = cookieNamed(request, sessionCookieName(request));
  if (cookie.empty()) return "";
  TRY(checkCookieUse(request, cookie));
  const bool fetched =
      request.count("sec-fetch-dest") == 1 && request.header("sec-fetch-dest") == "empty";
  if (rule == Cookie::kTaken || fetched || !isSafe(request)) return cookie;
  return fail(Code::kDenied,
              "Sec-Fetch-Dest: these bytes may be a page from a sandbox, so the cookie is taken "
              "from scripts alone (Sec-Fetch-Dest: empty)",
              "header.Sec-Fetch-Dest");
}

}  // namespace cloister::api

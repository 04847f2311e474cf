// SPDX-License-Identifier: Apache-2.0
// Cookies of the web interface. The service's origin also serves what sandboxes make, so a cookie
// alone proves little: a request with the cookie must also prove that a page of ours sent it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/http.h"
#include "base/result.h"

namespace cloister::api {

// Whether a route takes the cookie of a session as a credential.
enum class Cookie : uint8_t {
  kRefused,  // never: the request is as one without a credential
  kTaken,
  kFetched,  // only for a script (Sec-Fetch-Dest: empty), never for a document: the bytes may be a
             // page from a sandbox
};

// The session, and the sign-in under way at a provider. Over HTTPS with the prefix __Host-, which
// neither another host nor a page over plain HTTP can set.
inline constexpr std::string_view kSecureSession = "__Host-cloister";
inline constexpr std::string_view kPlainSession = "cloister_ui";
inline constexpr std::string_view kSecureLogin = "__Host-cloister-login";
inline constexpr std::string_view kPlainLogin = "cloister_ui_login";
inline constexpr std::string_view kCsrfHeader = "x-csrf-token";
// Pages send the header while nobody has touched them for a minute, so that what a page reads by
// itself does not keep a session from its idle end.
inline constexpr std::string_view kUnattendedHeader = "x-cloister-unattended";

// Whether a cookie of this name, in any case, is the service's own.
bool isOwnCookie(std::string_view name);

// Whether browsers reach the service in a way that keeps a cookie secret: over HTTPS, or over
// loopback by a name of loopback.
bool mayHaveCookies(const Request& request);
// The names for the way by which the request came.
std::string_view sessionCookieName(const Request& request);
std::string_view loginCookieName(const Request& request);

// The value of a cookie; "" without one. Two cookies of the name are none: one of them is planted.
std::string cookieNamed(const Request& request, std::string_view name);

// A Set-Cookie for a cookie of ours. `max_age`: seconds; none: until the browser ends.
std::string setCookie(const Request& request, std::string_view name, std::string_view value,
                      std::string_view same_site, std::optional<int64_t> max_age);

// kDenied, naming the header, unless a page of this origin sent the request with the session's
// cookie: Sec-Fetch-Site is absent or same-origin; for a WebSocket and an unsafe method, Origin is
// exactly the origin by which the request came; for an unsafe method, X-CSRF-Token is the cookie's.
Result<> checkCookieUse(const Request& request, std::string_view cookie);
// The same without a cookie, as before signing in: Origin, if present, is exact.
Result<> checkSameOrigin(const Request& request);

// Whether a person may be behind the request.
inline bool isAttended(const Request& request) {
  return request.count(kUnattendedHeader) == 0;
}

// The session's cookie, if it is the request's credential on a route with this rule; "" if not:
// Authorization and X-API-Key come first. Errors as of checkCookieUse().
Result<std::string> sessionCookie(const Request& request, Cookie rule);

}  // namespace cloister::api

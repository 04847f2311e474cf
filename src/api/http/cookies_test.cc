// SPDX-License-Identifier: Apache-2.0
#include "api/http/cookies.h"

#include <gtest/gtest.h>

#include "auth/web_sessions.h"

namespace cloister::api {
namespace {

const std::string kValue(64, 'a');

Request requestOf(std::string method, std::vector<Header> headers,
                  std::string origin = "https://a.test") {
  Request request;
  request.method = std::move(method);
  request.origin = std::move(origin);
  request.headers = std::move(headers);
  return request;
}

Header cookie() {
  return {"cookie", "__Host-cloister=" + kValue};
}

TEST(Cookies, TheWayDecidesAboutTheName) {
  Request request = requestOf("GET", {});
  EXPECT_TRUE(mayHaveCookies(request));
  EXPECT_EQ(sessionCookieName(request), kSecureSession);
  EXPECT_EQ(setCookie(request, kSecureSession, "v", "Strict", std::nullopt),
            "__Host-cloister=v; Path=/; HttpOnly; SameSite=Strict; Secure");
  for (const char* origin : {"http://localhost:1", "http://127.0.0.1", "http://[::1]:8750"}) {
    request.origin = origin;
    request.local = false;
    EXPECT_FALSE(mayHaveCookies(request)) << origin;
    request.local = true;
    EXPECT_TRUE(mayHaveCookies(request)) << origin;
    EXPECT_EQ(sessionCookieName(request), kPlainSession);
  }
  for (const char* origin : {"http://a.test", "http://localhost.evil", "", "http://"}) {
    request.origin = origin;
    EXPECT_FALSE(mayHaveCookies(request)) << origin;
  }
}

TEST(Cookies, OneOfANameCounts) {
  const auto value = [](std::vector<Header> headers) {
    return cookieNamed(requestOf("GET", std::move(headers)), "n");
  };
  EXPECT_EQ(value({{"cookie", "a=1;n=2; b=3"}}), "2");
  EXPECT_EQ(value({{"cookie", "a=1"}, {"cookie", "\tn = 2 "}}), "2");
  EXPECT_EQ(value({{"cookie", "n=2; n=2"}}), "");
  EXPECT_EQ(value({{"cookie", "n=2"}, {"cookie", "n=3"}}), "");
  EXPECT_EQ(value({{"cookie", "N=2; n; xn=1; =n=4"}}), "");
}

TEST(Cookies, AReadNeedsThisSite) {
  EXPECT_EQ(*sessionCookie(requestOf("GET", {cookie()}), Cookie::kTaken), kValue);
  EXPECT_EQ(*sessionCookie(requestOf("GET", {cookie()}), Cookie::kRefused), "");
  EXPECT_EQ(*sessionCookie(requestOf("GET", {}), Cookie::kTaken), "");
  for (const char* name : {"authorization", "x-api-key"})
    EXPECT_EQ(*sessionCookie(requestOf("GET", {cookie(), {name, ""}}), Cookie::kTaken), "");
  EXPECT_TRUE(sessionCookie(requestOf("GET", {cookie(), {"sec-fetch-site", "same-origin"}}),
                            Cookie::kTaken));
  for (const char* site : {"cross-site", "same-site", "none", ""}) {
    const auto refused =
        sessionCookie(requestOf("GET", {cookie(), {"sec-fetch-site", site}}), Cookie::kTaken);
    ASSERT_FALSE(refused) << site;
    EXPECT_EQ(refused.error().field, "header.Sec-Fetch-Site");
  }
}

TEST(Cookies, ContentIsForScripts) {
  EXPECT_TRUE(
      sessionCookie(requestOf("GET", {cookie(), {"sec-fetch-dest", "empty"}}), Cookie::kFetched));
  EXPECT_FALSE(sessionCookie(requestOf("GET", {cookie()}), Cookie::kFetched));
  for (const char* dest : {"document", "iframe", "", "EMPTY"}) {
    EXPECT_FALSE(
        sessionCookie(requestOf("GET", {cookie(), {"sec-fetch-dest", dest}}), Cookie::kFetched))
        << dest;
  }
}

TEST(Cookies, AChangeNeedsOriginAndToken) {
  const Header origin{"origin", "https://a.test"};
  const Header token{"x-csrf-token", auth::csrfOf(kValue)};
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE", "BREW"}) {
    EXPECT_TRUE(sessionCookie(requestOf(method, {cookie(), origin, token}), Cookie::kTaken));
    EXPECT_FALSE(sessionCookie(requestOf(method, {cookie(), token}), Cookie::kTaken));
    EXPECT_FALSE(sessionCookie(requestOf(method, {cookie(), origin}), Cookie::kTaken));
    EXPECT_FALSE(
        sessionCookie(requestOf(method, {cookie(), origin, token, token}), Cookie::kTaken));
    EXPECT_FALSE(
        sessionCookie(requestOf(method, {cookie(), origin, origin, token}), Cookie::kTaken));
  }
  EXPECT_TRUE(sessionCookie(requestOf("GET", {cookie(), {"upgrade", "websocket"}, origin}),
                            Cookie::kTaken));
  EXPECT_FALSE(
      sessionCookie(requestOf("GET", {cookie(), {"upgrade", "websocket"}}), Cookie::kTaken));
  EXPECT_NE(auth::csrfOf(kValue), auth::csrfOf(std::string(64, 'b')));
}

TEST(Cookies, OwnNamesInAnyCase) {
  for (const char* name : {"__Host-cloister", "__host-CLOISTER", "Cloister_UI", "cloister_ui_login",
                           "__HOST-cloister-login"})
    EXPECT_TRUE(isOwnCookie(name)) << name;
  for (const char* name : {"", "__Host-", "cloister", "cloister_ui2", "__Host-other"})
    EXPECT_FALSE(isOwnCookie(name)) << name;
}

}  // namespace
}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// Tokens over a provider that is a function: the times of the requests, and the accepted tokens
// while the provider is silent.
#include "auth/tokens.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include "auth/token_maker.h"

namespace cloister::auth {
namespace {

namespace asio = boost::asio;
namespace json = base::json;
using std::chrono::seconds;
using testing::keySet;
using testing::TestKey;

class TokensTest : public ::testing::Test {
 protected:
  void open(KeyTimes times = {}) {
    model::OidcSettings oidc;
    oidc.issuer = "https://login.test";
    oidc.audience = {"cloister"};
    oidc.roles = {"runner = agent"};
    const auto fetch = [this]() -> Task<Result<std::string>> {
      ++asked_;
      const auto answer = answer_;
      co_return answer ? Result<std::string>(*answer) : fail(Code::kUnavailable, "it is silent");
    };
    tokens_.emplace(io_.get_executor(), TokenRules::from(oidc).value(), times, fetch);
  }

  static json::object claims() {
    const int64_t now = base::wallMicros() / 1'000'000;
    return {{"iss", "https://login.test"},
            {"aud", "cloister"},
            {"iat", now},
            {"exp", now + 60},
            {"tenant", "acme"},
            {"roles", "runner"}};
  }

  Result<Identity> identify(const std::string& token) {
    io_.restart();
    auto who = asio::co_spawn(io_, tokens_->verify(token), asio::use_future);
    io_.run();
    return who.get();
  }
  Result<model::Principal> verify(const std::string& token) {
    auto who = identify(token);
    if (!who) return std::unexpected(std::move(who).error());
    return std::move(who)->principal;
  }
  Code codeOf(const std::string& token) {
    const auto who = verify(token);
    return who ? Code::kInternal : who.error().code;
  }

  asio::io_context io_;
  TestKey key_{Algorithm::kEs256, "one"};
  std::optional<std::string> answer_ = keySet({key_.jwk()});
  int asked_ = 0;
  std::optional<OidcTokens> tokens_;
};

TEST_F(TokensTest, AreVerifiedByKeysThatAreAskedForOnce) {
  open();
  const std::string token = key_.token(claims());
  for (int i = 0; i < 3; ++i) {
    const auto who = verify(token);
    ASSERT_TRUE(who) << who.error().message;
    EXPECT_EQ(who->tenant, "acme");
    EXPECT_EQ(who->key_id, "jwt_" + base::sha256Hex(token).substr(0, 16));
  }
  EXPECT_EQ(asked_, 1);
}

// With the leeway of checkClaims(): the clocks may differ.
TEST_F(TokensTest, EndWithTheirExpiryAndTheLeeway) {
  open();
  json::object made = claims();
  const auto who = identify(key_.token(made));
  ASSERT_TRUE(who) << who.error().message;
  EXPECT_EQ(who->ends_at, (made.at("exp").as_int64() + 30) * 1'000'000);
  EXPECT_EQ(who->credential().id, who->principal.key_id);
}

TEST_F(TokensTest, WorthNothingAreRefusedWithoutAQuestion) {
  open();
  const TestKey rsa(Algorithm::kRs256, "one");
  json::object late = claims();
  late["exp"] = 1;
  for (const std::string& token : {std::string("a.b.c"), key_.token({}), key_.token(late),
                                   key_.token(claims(), {{"jku", "https://evil.test"}})})
    EXPECT_EQ(codeOf(token), Code::kUnauthorized);
  EXPECT_EQ(asked_, 0);
  ASSERT_TRUE(verify(key_.token(claims())));
  EXPECT_EQ(codeOf(rsa.token(claims())), Code::kUnauthorized) << "its name, another algorithm";
  EXPECT_EQ(codeOf(key_.token(claims(), {{"kid", "../one"}})), Code::kUnauthorized);
  EXPECT_EQ(codeOf(key_.token(claims(), {{"kid", "https://evil.test"}})), Code::kUnauthorized);
  EXPECT_EQ(asked_, 1);
}

TEST_F(TokensTest, OfANewKeyMakeItAskAgainOnceInAWhile) {
  open({.refresh = seconds(0)});
  ASSERT_TRUE(verify(key_.token(claims())));
  const TestKey next(Algorithm::kEdDsa, "two");
  answer_ = keySet({next.jwk()});
  EXPECT_TRUE(verify(next.token(claims())));
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(codeOf(key_.token(claims())), Code::kUnauthorized) << "it is no longer there";
  open({.refresh = seconds(3600)});
  asked_ = 0;
  ASSERT_TRUE(verify(next.token(claims())));
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(codeOf(key_.token(claims(), {{"kid", std::to_string(i)}})), Code::kUnauthorized);
  EXPECT_EQ(asked_, 1);
}

TEST_F(TokensTest, HoldWhileTheProviderIsSilent) {
  open({.fresh = seconds(0), .stale = seconds(3600), .refresh = seconds(0)});
  ASSERT_TRUE(verify(key_.token(claims())));
  for (const std::optional<std::string>& bad :
       {std::optional<std::string>(), std::optional<std::string>("{}")}) {
    answer_ = bad;
    EXPECT_TRUE(verify(key_.token(claims())));
  }
  EXPECT_EQ(asked_, 3);
}

TEST_F(TokensTest, AreNotRefusedForGoodByAProviderThatIsSilent) {
  open({.refresh = seconds(0)});
  answer_.reset();
  EXPECT_EQ(codeOf(key_.token(claims())), Code::kUnavailable);
  answer_ = keySet({key_.jwk()});
  EXPECT_TRUE(verify(key_.token(claims())));
  open({.fresh = seconds(0), .stale = seconds(0), .refresh = seconds(0)});
  answer_.reset();
  EXPECT_EQ(codeOf(key_.token(claims())), Code::kUnavailable);
}

TEST_F(TokensTest, ThatComeTogetherAskOnce) {
  open();
  int good = 0;
  const std::string token = key_.token(claims());
  for (int i = 0; i < 10; ++i) {
    asio::co_spawn(
        io_,
        [&]() -> Task<void> {
          if (co_await tokens_->verify(token)) ++good;
        },
        asio::detached);
  }
  io_.run();
  EXPECT_EQ(good, 10);
  EXPECT_EQ(asked_, 1);
}

TEST(Url, IsOfTheProviderAlone) {
  const auto url = net::parseUrl("https://login.test:8443/realms/main?x=1");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "login.test");
  EXPECT_EQ(url->port, "8443");
  EXPECT_EQ(url->target, "/realms/main?x=1");
  EXPECT_EQ(net::parseUrl("https://login.test")->target, "/");
  EXPECT_EQ(net::parseUrl("https://login.test")->port, "443");
  EXPECT_EQ(net::parseUrl("http://[::1]:80/x")->host, "::1");
  EXPECT_TRUE(net::parseUrl("http://localhost:9"));
  for (const char* bad :
       {"", "login.test", "ftp://login.test", "http://login.test", "http://127.0.0.2/", "https://",
        "https:///x", "https://a@b/", "https://a/#f", "https://a b/", "https://a:b/", "https://a:/",
        "https://a:123456/", "https://[::1", "https://a\\b/", "file:///etc/passwd",
        "http://localhost.evil.test/", "https://a/\r\nHost: b"})
    EXPECT_FALSE(net::parseUrl(bad)) << bad;
}

}  // namespace
}  // namespace cloister::auth

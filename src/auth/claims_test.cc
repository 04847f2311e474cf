// SPDX-License-Identifier: Apache-2.0
#include "auth/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::auth {
namespace {

namespace json = base::json;
using ::testing::HasSubstr;

constexpr int64_t kNow = 1'800'000'000;

model::OidcSettings settings() {
  model::OidcSettings oidc;
  oidc.issuer = "https://login.test";
  oidc.audience = {"cloister", "other"};
  oidc.roles = {"runner = agent", "a = b = viewer"};
  return oidc;
}

TokenRules rules() {
  return TokenRules::from(settings()).value();
}

json::object with(std::initializer_list<std::pair<std::string_view, json::value>> more) {
  json::object claims{{"iss", "https://login.test"},
                      {"aud", "cloister"},
                      {"iat", kNow},
                      {"exp", kNow + 60},
                      {"sub", "s"},
                      {"tenant", "acme"},
                      {"roles", {"runner"}}};
  for (const auto& [name, value] : more) {
    claims[name] = value;
    if (value.is_null()) claims.erase(name);
  }
  return claims;
}

TEST(Claims, AreGood) {
  for (const json::object& claims :
       {with({}), with({{"aud", {"x", "other"}}}), with({{"exp", kNow - 29}, {"iat", kNow - 60}}),
        with({{"iat", kNow + 30}}), with({{"nbf", kNow + 30}}), with({{"exp", kNow + 60.5}}),
        with({{"nbf", 0}})})
    EXPECT_TRUE(checkClaims(claims, rules(), kNow)) << base::toJson(claims);
}

TEST(Claims, AreBad) {
  for (const json::object& claims : {with({{"iss", nullptr}}),
                                     with({{"iss", "https://login.test/"}}),
                                     with({{"iss", "HTTPS://login.test"}}),
                                     with({{"aud", nullptr}}),
                                     with({{"aud", "cloister other"}}),
                                     with({{"aud", json::array()}}),
                                     with({{"aud", json::array{json::array{"cloister"}, 1}}}),
                                     with({{"exp", nullptr}}),
                                     with({{"exp", kNow - 30}, {"iat", kNow - 90}}),
                                     with({{"exp", "1"}}),
                                     with({{"exp", true}}),
                                     with({{"exp", -1}}),
                                     with({{"exp", 1e300}}),
                                     with({{"iat", nullptr}}),
                                     with({{"iat", kNow + 31}}),
                                     with({{"iat", "x"}}),
                                     with({{"nbf", kNow + 31}}),
                                     with({{"nbf", "x"}}),
                                     with({{"exp", kNow + 86'401}}),
                                     with({{"iat", 0}}),
                                     with({{"exp", kNow}})})
    EXPECT_FALSE(checkClaims(claims, rules(), kNow)) << base::toJson(claims);
}

// A missing expiry must not mean an infinite lifetime.
TEST(Claims, SayWhenTheyEnd) {
  EXPECT_EQ(endOf(with({}), rules()).value(), kNow + 60 + rules().leeway);
  EXPECT_FALSE(checkClaims(with({}), rules(), *endOf(with({}), rules())));
  EXPECT_TRUE(checkClaims(with({}), rules(), *endOf(with({}), rules()) - 1));
  for (const json::value& exp : {json::value(nullptr), json::value("soon"), json::value(-1)})
    EXPECT_EQ(endOf(with({{"exp", exp}}), rules()).error().code, Code::kInvalid);
}

TEST(Claims, MakeAPrincipal) {
  const auto who = principalOf(
      with({{"client_id", "app"}, {"agent", "bot"}, {"roles", {"x", "runner"}}}), rules());
  ASSERT_TRUE(who) << who.error().message;
  EXPECT_EQ(who->tenant, "acme");
  EXPECT_EQ(who->app, "app");
  EXPECT_EQ(who->agent, "bot");
  EXPECT_EQ(who->user, "s");
  EXPECT_EQ(who->roles, model::Roles(model::Role::kAgent));
  EXPECT_EQ(principalOf(with({{"roles", "a = b"}}), rules())->roles,
            model::Roles(model::Role::kViewer));
  EXPECT_EQ(principalOf(with({{"roles", "x runner y"}}), rules())->roles,
            model::Roles(model::Role::kAgent));
}

TEST(Claims, ThatMakeNobody) {
  const auto problem = [](const json::object& claims) {
    const auto who = principalOf(claims, rules());
    if (who) return std::string("somebody");
    EXPECT_EQ(who.error().code, Code::kDenied);
    return who.error().message;
  };
  EXPECT_THAT(problem(with({{"tenant", nullptr}})), HasSubstr("tenant"));
  EXPECT_THAT(problem(with({{"tenant", ""}})), HasSubstr("tenant"));
  EXPECT_THAT(problem(with({{"tenant", 7}})), HasSubstr("tenant"));
  EXPECT_THAT(problem(with({{"sub", "a\nb"}})), HasSubstr("sub"));
  EXPECT_THAT(problem(with({{"sub", json::string(129, 'x')}})), HasSubstr("sub"));
  for (const json::value& roles :
       {json::value(nullptr), json::value("admin"), json::value("Runner"),
        json::value(json::array{"admin", 7}), json::value(7)})
    EXPECT_THAT(problem(with({{"roles", roles}})), HasSubstr("roles")) << base::toJson(roles);
}

TEST(Claims, NeverMakeAnAdminUnlessMapped) {
  model::OidcSettings oidc = settings();
  oidc.default_roles = {"viewer"};
  EXPECT_EQ(principalOf(with({{"roles", "admin"}}), TokenRules::from(oidc).value())->roles,
            model::Roles(model::Role::kViewer));
  oidc.roles.emplace_back("root=admin");
  EXPECT_TRUE(principalOf(with({{"roles", "root"}}), TokenRules::from(oidc).value())->isAdmin());
  oidc.default_roles = {"admin"};
  EXPECT_EQ(TokenRules::from(oidc).error().field, "auth.oidc.default_roles");
}

TEST(Claims, MustMeetEveryRule) {
  model::OidcSettings oidc = settings();
  oidc.require = {"email_verified = true", "team.groups contains eng", "level = 3"};
  const TokenRules strict = TokenRules::from(oidc).value();
  const json::object team{{"groups", {"ops", "eng"}}};
  const auto meets = [&](const json::object& claims) {
    return principalOf(claims, strict).has_value();
  };
  EXPECT_TRUE(meets(with({{"email_verified", true}, {"team", team}, {"level", 3}})));
  EXPECT_TRUE(meets(with({{"email_verified", "true"}, {"team", team}, {"level", "3"}})));
  EXPECT_FALSE(meets(with({{"email_verified", false}, {"team", team}, {"level", 3}})));
  EXPECT_FALSE(meets(with({{"team", team}, {"level", 3}})));
  EXPECT_FALSE(meets(with({{"email_verified", true}, {"team", "eng"}, {"level", 3}})));
  EXPECT_FALSE(meets(with({{"email_verified", true}, {"team", team}, {"level", 3.5}})));
  // The claim with the dotted name comes first: an object cannot hide the claim.
  EXPECT_FALSE(meets(
      with({{"email_verified", true}, {"team", team}, {"team.groups", "ops"}, {"level", 3}})));
}

TEST(Claims, ConfigurationNamesWhatIsWrong) {
  const auto field = [](auto change) {
    model::OidcSettings oidc = settings();
    change(oidc);
    const auto parsed = TokenRules::from(oidc);
    return parsed ? std::string() : parsed.error().field;
  };
  EXPECT_EQ(field([](auto& o) { o.audience.clear(); }), "auth.oidc.audience");
  EXPECT_EQ(field([](auto& o) { o.audience = {""}; }), "auth.oidc.audience");
  EXPECT_EQ(field([](auto& o) { o.algorithms = {"none"}; }), "auth.oidc.algorithms");
  EXPECT_EQ(field([](auto& o) { o.roles = {"agent"}; }), "auth.oidc.roles");
  EXPECT_EQ(field([](auto& o) { o.roles = {"= agent"}; }), "auth.oidc.roles");
  EXPECT_EQ(field([](auto& o) { o.require = {"x ="}; }), "auth.oidc.require");
  EXPECT_EQ(field([](auto& o) { o.default_roles = {"agent", "approver"}; }),
            "auth.oidc.default_roles");
  EXPECT_EQ(field([](auto&) {}), "");
}

}  // namespace
}  // namespace cloister::auth

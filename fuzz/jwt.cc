// SPDX-License-Identifier: Apache-2.0
// Tokens and key sets from strangers: an accepted token has all mandatory parts, and only a single
// text encodes those parts.
#include "auth/jwt.h"

#include "auth/claims.h"
#include "auth/jwks.h"

#include "require.h"

using namespace cloister::auth;  // NOLINT(google-build-using-namespace)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TokenRules rules = [] {
    cloister::model::OidcSettings oidc;
    oidc.issuer = "https://login.test";
    oidc.audience = {"cloister"};
    oidc.roles = {"runner = agent"};
    oidc.require = {"a.b contains c"};
    return TokenRules::from(oidc).value();
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto set = parseKeySet(text)) {
    for (const auto& [kid, key] : *set) {
      REQUIRE(!kid.empty() && kid.size() <= kMaxKid);
      REQUIRE(!key.verify("text", "no signature"));
    }
  }
  const auto jwt = parseJwt(text);
  if (!jwt) {
    REQUIRE(!jwt.error().message.empty());
    return 0;
  }
  REQUIRE(size <= kMaxToken);
  REQUIRE(!jwt->kid.empty() && jwt->kid.size() <= kMaxKid);
  REQUIRE(!jwt->signature.empty());
  REQUIRE(text.starts_with(jwt->signed_text));
  (void)checkClaims(jwt->claims, rules, 1'800'000'000);
  if (const auto who = principalOf(jwt->claims, rules)) {
    REQUIRE(!who->tenant.empty());
    REQUIRE(!who->roles.empty() && !who->isAdmin());
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "auth/jwt.h"

#include <gtest/gtest.h>

#include "auth/jwks.h"
#include "auth/token_maker.h"

namespace cloister::auth {
namespace {

namespace json = base::json;
using testing::base64Url;
using testing::keySet;
using testing::TestKey;

std::string token(std::string_view header, std::string_view claims = "{}",
                  std::string_view signature = "x") {
  return base64Url(header) + "." + base64Url(claims) + "." + base64Url(signature);
}

TEST(Base64Url, HasOneTextForEachValue) {
  EXPECT_EQ(fromBase64Url("").value(), "");
  EXPECT_EQ(fromBase64Url("_-8").value(), "\xff\xef");
  for (const char* text : {"_-8=", "/+8", "_-9", "a", "aGk\n", "a b", "aGk.", "\xc3\xa9"})
    EXPECT_FALSE(fromBase64Url(text)) << text;
}

TEST(Jwt, IsRead) {
  const auto jwt =
      parseJwt(token(R"({"alg":"ES256","kid":"k","typ":"at+JWT"})", R"({"sub":"s"})", "signature"));
  ASSERT_TRUE(jwt) << jwt.error().message;
  EXPECT_EQ(jwt->algorithm, Algorithm::kEs256);
  EXPECT_EQ(jwt->kid, "k");
  EXPECT_EQ(jwt->claims.at("sub").as_string(), "s");
  EXPECT_EQ(jwt->signature, "signature");
}

TEST(Jwt, RefusesAHeaderThatSaysMore) {
  for (const char* header : {R"({})",
                             R"([])",
                             R"("x")",
                             R"({"alg":"RS256"})",
                             R"({"kid":"k"})",
                             R"({"alg":"none","kid":"k"})",
                             R"({"alg":"HS256","kid":"k"})",
                             R"({"alg":"rs256","kid":"k"})",
                             R"({"alg":"RS256 ","kid":"k"})",
                             R"({"alg":["RS256"],"kid":"k"})",
                             R"({"alg":"RS256","kid":""})",
                             R"({"alg":"RS256","kid":1})",
                             R"({"alg":"RS256","alg":"none","kid":"k"})",
                             R"({"alg":"RS256","kid":"k","jku":"https://x"})",
                             R"({"alg":"RS256","kid":"k","jwk":{}})",
                             R"({"alg":"RS256","kid":"k","x5u":"x"})",
                             R"({"alg":"RS256","kid":"k","x5c":["x"]})",
                             R"({"alg":"RS256","kid":"k","crit":["exp"]})",
                             R"({"alg":"RS256","kid":"k","zip":"DEF"})",
                             R"({"alg":"RS256","kid":"k","enc":"A128GCM"})",
                             R"({"alg":"RS256","kid":"k","typ":"dpop+jwt"})",
                             R"({"alg":"RS256","kid":"k"} )"
                             "\n{}"})
    EXPECT_FALSE(parseJwt(token(header))) << header;
  const std::string long_kid(kMaxKid + 1, 'k');
  EXPECT_FALSE(parseJwt(token(R"({"alg":"RS256","kid":")" + long_kid + R"("})")));
}

TEST(Jwt, RefusesAnotherShape) {
  const std::string good = token(R"({"alg":"RS256","kid":"k"})");
  ASSERT_TRUE(parseJwt(good));
  for (const std::string& bad :
       {std::string(), std::string(".."), good + ".", good + ".x", "." + good, good + "=",
        good.substr(0, good.rfind('.') + 1), good.substr(0, good.rfind('.')), " " + good,
        good + std::string(kMaxToken, 'A'), token(R"({"alg":"RS256","kid":"k"})", "[]"),
        token(R"({"alg":"RS256","kid":"k"})", R"({"a":1,"a":1})"),
        token(R"({"alg":"RS256","kid":"k"})", "{} x"),
        token(R"({"alg":"RS256","kid":"k"})", "{}", std::string(2000, 'x'))})
    EXPECT_FALSE(parseJwt(bad)) << bad.substr(0, 100);
}

TEST(KeySet, VerifiesWhatItsKeysSigned) {
  const json::object claims{{"sub", "s"}};
  for (const Algorithm algorithm : {Algorithm::kRs256, Algorithm::kEs256, Algorithm::kEdDsa}) {
    const TestKey key(algorithm, "k");
    const TestKey other(algorithm, "k");
    const auto set = parseKeySet(keySet({key.jwk()}));
    ASSERT_TRUE(set && set->contains("k")) << key.name();
    const PublicKey& known = set->at("k");
    EXPECT_EQ(known.algorithm(), algorithm);
    const Jwt jwt = parseJwt(key.token(claims)).value();
    EXPECT_TRUE(known.verify(jwt.signed_text, jwt.signature)) << key.name();
    EXPECT_FALSE(known.verify(jwt.signed_text + "x", jwt.signature));
    EXPECT_FALSE(known.verify(jwt.signed_text, other.sign(jwt.signed_text)));
    for (size_t i = 0; i < jwt.signature.size(); i += 7) {
      std::string changed = jwt.signature;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      EXPECT_FALSE(known.verify(jwt.signed_text, changed)) << key.name() << i;
    }
    for (const std::string& bad : {std::string(), std::string(64, '\0'), jwt.signature + '\0',
                                   jwt.signature.substr(1), std::string(64, '\xff')})
      EXPECT_FALSE(known.verify(jwt.signed_text, bad)) << key.name();
  }
}

TEST(KeySet, TakesOnlyWhatIsOfUse) {
  const TestKey ec(Algorithm::kEs256, "ec");
  const auto with = [&](std::string_view name, json::value value) {
    json::object jwk = ec.jwk();
    jwk[name] = std::move(value);
    return jwk;
  };
  json::object private_key = ec.jwk();
  private_key.erase("kid");
  const TestKey weak(Algorithm::kRs256, "weak", 1024);
  const json::array useless = {
      with("use", "enc"),
      with("alg", "RS256"),
      with("alg", "ES384"),
      with("kty", "oct"),
      with("crv", "P-384"),
      with("x", "AAAA"),
      with("y", ec.jwk().at("x")),
      with("key_ops", json::array{"sign"}),
      with("kid", ""),
      with("kid", 7),
      private_key,
      weak.jwk(),
      "text",
      nullptr,
      json::object{{"kty", "oct"}, {"kid", "s"}, {"k", "c2VjcmV0"}},
      json::object{{"kty", "RSA"}, {"kid", "r"}, {"n", "AQAB"}, {"e", "AQAB"}}};
  for (const json::value& item : useless) {
    const auto set = parseKeySet(keySet({item}));
    ASSERT_TRUE(set);
    EXPECT_TRUE(set->empty()) << base::toJson(item);
  }
  EXPECT_EQ(parseKeySet(keySet({ec.jwk(), "text"}))->size(), 1U);
  EXPECT_TRUE(parseKeySet(keySet({ec.jwk(), ec.jwk()}))->empty()) << "which one is meant?";
  for (const char* bad : {"", "[]", "{}", R"({"keys":{}})", R"({"keys":[],"keys":[]})"})
    EXPECT_FALSE(parseKeySet(bad)) << bad;
  EXPECT_FALSE(parseKeySet(keySet(json::array(kMaxKeys + 1, nullptr))));
}

}  // namespace
}  // namespace cloister::auth

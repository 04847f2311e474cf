// SPDX-License-Identifier: Apache-2.0
#include "model/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<std::vector<SecretUse>> uses(std::string_view text) {
  return readSecretUses(base::parseJson(text).value(), "secrets");
}

Result<std::vector<SecretGrant>> grants(std::string_view text) {
  return readSecretGrants(base::parseJson(text).value(), "rules[0].secrets");
}

TEST(SecretUse, EnvHasAVariable) {
  const auto read = uses(R"([{"name":"KEY","as":"env","variable":"API_KEY"},
                             {"name":"TOKEN","as":"env"}])");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ((*read)[0].as, SecretAs::kEnv);
  EXPECT_EQ((*read)[0].variable, "API_KEY");
  EXPECT_EQ((*read)[1].variable, "TOKEN");
}

TEST(SecretUse, FileHasAPlace) {
  const auto read = uses(R"([{"name":"KEY","as":"file"},
                             {"name":"KEY","as":"file","path":"/run/secrets/a/b"},
                             {"name":"KEY","as":"file","path":".config/key"}])");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ((*read)[0].path, "/run/secrets/KEY");
  EXPECT_EQ((*read)[1].path, "/run/secrets/a/b");
  EXPECT_EQ((*read)[2].path, ".config/key");
}

TEST(SecretUse, BrokerHasADestination) {
  const auto read = uses(R"([{"name":"KEY","as":"broker","host":"api.example.com","port":8443,
    "header":"Authorization","format":"Bearer {}","methods":["GET"],"paths":["/v1/*"]},
    {"name":"K2","as":"broker","host":"b.example.com","variable":"B_KEY","methods":[],"paths":[]}])");
  ASSERT_TRUE(read) << read.error().message;
  const SecretUse& use = (*read)[0];
  EXPECT_EQ(use.host, "api.example.com");
  EXPECT_EQ(use.port, 8443);
  EXPECT_EQ(use.header, "Authorization");
  EXPECT_EQ(use.format, "Bearer {}");
  EXPECT_THAT(use.methods, ElementsAre("GET"));
  EXPECT_THAT(use.paths, ElementsAre("/v1/*"));
  EXPECT_EQ((*read)[1].port, 443);
  EXPECT_EQ((*read)[1].variable, "B_KEY");
  EXPECT_EQ((*read)[1].format, "{}");
}

TEST(SecretUse, TheCanonicalFormIsReadBack) {
  const auto read = uses(R"([{"name":"A","as":"env"},{"name":"B","as":"file","path":"x/y"},
    {"name":"C","as":"broker","host":"c.example.com","header":"X-Key","format":"k={}",
     "variable":"C","methods":["POST"],"paths":["/*"]},
    {"name":"D","as":"broker","host":"d.example.com","variable":"D"}])");
  ASSERT_TRUE(read) << read.error().message;
  base::json::array array;
  for (const SecretUse& use : *read)
    array.push_back(toJsonObject(use));
  EXPECT_EQ(readSecretUses(array, "secrets"), *read);
}

// Models that must give every member of a schema give null for the others.
TEST(SecretUse, NullIsNoMember) {
  const auto read = uses(
      R"([{"name":"A","as":"env","variable":null,"path":null,"host":null,"header":null,
     "format":null}])");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, uses(R"([{"name":"A","as":"env"}])"));
}

TEST(SecretUse, RefusalsNameTheMemberAndTheRemedy) {
  struct Refused {
    std::string text;
    std::string field;
    std::string remedy;
  };
  for (const Refused& each : std::vector<Refused>{
           {R"([])", "secrets", "leave it out"},
           {R"({})", "secrets", "members"},
           {R"(["KEY"])", "secrets[0]", "object"},
           {R"([{"as":"env"}])", "secrets[0].name", "a letter"},
           {R"([{"name":"1K","as":"env"}])", "secrets[0].name", "a letter"},
           {R"([{"name":"K/K","as":"env"}])", "secrets[0].name", "a letter"},
           {R"([{"name":"K"}])", "secrets[0].as", "env, file, broker"},
           {R"([{"name":"K","as":"proxy"}])", "secrets[0].as", "env, file, broker"},
           {R"([{"name":"K","as":"env","value":"x"}])", "secrets[0].value", "unknown"},
           {R"([{"name":"K-1","as":"env"}])", "secrets[0].variable", "is required"},
           {R"([{"name":"K","as":"env","variable":"A B"}])", "secrets[0].variable", "letters"},
           {R"([{"name":"K","as":"env","path":"x"}])", "secrets[0].path", "leave it out"},
           {R"([{"name":"K","as":"env","host":"x.test"}])", "secrets[0].host", "leave it out"},
           {R"([{"name":"K","as":"file","variable":"K"}])", "secrets[0].variable", "leave it out"},
           {R"([{"name":"K","as":"file","path":"/etc/k"}])", "secrets[0].path", "/run/secrets/"},
           {R"([{"name":"K","as":"file","path":"/run/secrets/"}])", "secrets[0].path", "below"},
           {R"([{"name":"K","as":"file","path":"/run/secrets/../k"}])", "secrets[0].path", ".."},
           {R"([{"name":"K","as":"file","path":"a/../b"}])", "secrets[0].path", ".."},
           {R"([{"name":"K","as":"broker","header":"X"}])", "secrets[0].host", "is required"},
           {R"([{"name":"K","as":"broker","host":"10.0.0.1","header":"X"}])", "secrets[0].host",
            ""},
           {R"([{"name":"K","as":"broker","host":"*.a.test","header":"X"}])", "secrets[0].host",
            ""},
           {R"([{"name":"K","as":"broker","host":"a.test"}])", "secrets[0].header", "variable"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"Host"}])", "secrets[0].header",
            "name another"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"A B"}])", "secrets[0].header",
            "Authorization"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"X","format":"Bearer"}])",
            "secrets[0].format", "{}"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"X","format":"{}{}"}])",
            "secrets[0].format", "once"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"X","format":"a\n{}"}])",
            "secrets[0].format", "once"},
           {R"([{"name":"K","as":"broker","host":"a.test","variable":"X","format":"{}"}])",
            "secrets[0].format", "header"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"X","methods":["get"]}])",
            "secrets[0].methods", "upper case"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"X","paths":["v1"]}])",
            "secrets[0].paths", "\"/\""},
           {R"([{"name":"K","as":"env"},{"name":"L","as":"env","variable":"K"}])",
            "secrets[1].variable", "another secret"},
           {R"([{"name":"K","as":"file","path":"k"},{"name":"L","as":"file","path":"k"}])",
            "secrets[1].path", "another secret"},
           {R"([{"name":"K","as":"broker","host":"a.test","header":"X"},
                {"name":"L","as":"broker","host":"a.test","header":"x"}])",
            "secrets[1].header", "another secret"}}) {
    const auto read = uses(each.text);
    ASSERT_FALSE(read) << each.text;
    EXPECT_EQ(read.error().code, Code::kInvalid) << each.text;
    EXPECT_EQ(read.error().field, each.field) << read.error().message;
    EXPECT_THAT(read.error().message, HasSubstr(each.remedy)) << each.text;
  }
}

TEST(SecretUse, ARequestHasABoundedNumber) {
  std::string text = "[";
  for (size_t i = 0; i <= kMaxSecretUses; ++i)
    text += R"({"name":"K)" + std::to_string(i) + R"(","as":"env"},)";
  text.back() = ']';
  EXPECT_EQ(uses(text).error().field, "secrets");
}

TEST(SecretGrant, NamesWaysAndHosts) {
  const auto read = grants(R"([{"name":"GITHUB_*","as":["env","broker"],"hosts":["*.github.com"]},
                               {"name":"*","as":["file"]}])");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ((*read)[0].name, "GITHUB_*");
  EXPECT_THAT((*read)[0].as, ElementsAre(SecretAs::kEnv, SecretAs::kBroker));
  EXPECT_THAT((*read)[0].hosts, ElementsAre("*.github.com"));
  base::json::array array;
  for (const SecretGrant& grant : *read)
    array.push_back(toJsonObject(grant));
  EXPECT_EQ(readSecretGrants(array, "secrets"), *read);
}

TEST(SecretGrant, RefusalsNameTheMember) {
  for (const auto& [text, field] : std::vector<std::pair<std::string, std::string>>{
           {R"([])", ""},
           {R"([{"as":["env"]}])", "[0].name"},
           {R"([{"name":"a b","as":["env"]}])", "[0].name"},
           {R"([{"name":"A"}])", "[0].as"},
           {R"([{"name":"A","as":[]}])", "[0].as"},
           {R"([{"name":"A","as":["all"]}])", "[0].as"},
           {R"([{"name":"A","as":["env","env"]}])", "[0].as"},
           {R"([{"name":"A","as":["broker"]}])", "[0].hosts"},
           {R"([{"name":"A","as":["broker"],"hosts":[]}])", "[0].hosts"},
           {R"([{"name":"A","as":["broker"],"hosts":["a b"]}])", "[0].hosts[0]"},
           {R"([{"name":"A","as":["env"],"hosts":["a.test"]}])", "[0].hosts"},
           {R"([{"name":"A","as":["env"],"why":"x"}])", "[0].why"}}) {
    const auto read = grants(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().field, "rules[0].secrets" + field) << read.error().message;
  }
}

TEST(SecretName, BeginsWithALetter) {
  const std::string longest(kMaxSecretName, 'a');
  for (const std::string_view name :
       {std::string_view("A"), std::string_view("api.key-1_x"), std::string_view(longest)})
    EXPECT_TRUE(isSecretName(name)) << name;
  for (const std::string_view name : {"", "1", "_A", "a b", "a/b", "\xc3\xa4"})
    EXPECT_FALSE(isSecretName(name)) << name;
  EXPECT_FALSE(isSecretName(longest + "a"));
}

}  // namespace
}  // namespace cloister::model

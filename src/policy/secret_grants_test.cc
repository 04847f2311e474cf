// SPDX-License-Identifier: Apache-2.0
#include "policy/secret_grants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_testing.h"  // needs CLOISTER_SOURCE_DIR
#include "policy/warnings.h"

namespace cloister::policy {
namespace {

using testing::asking;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::policyOf;

constexpr char kRules[] = R"(
  - {name: work, why: w, effect: allow, secrets: [{name: "GH_*", as: [env, file]},
      {name: API, as: [broker], hosts: [api.example.com, "*.example.org"]}],
      network: [api.example.com:443, "*.example.org:443", plain.example.org:80, api.example.com:9000]}
)";

Evaluation evaluated(const Policy& policy, const std::string& secrets,
                     const std::string& network = R"({"tier":"restricted"})") {
  const Supposed supposed =
      asking().suppose(R"({"request":{"language":"python","code":"1","network_policy":)" + network +
                       R"(,"secrets":)" + secrets + "}}");
  return evaluate(policy, supposed.question());
}

std::string reasonOf(const Evaluation& made) {
  return made.denied ? made.denied->reason + " / " + made.denied->remedy : "allowed";
}

TEST(SecretGrants, SilenceRefuses) {
  const Policy policy = policyOf("  - {name: a, why: w, effect: allow}\n");
  const Evaluation made = evaluated(policy, R"([{"name":"KEY","as":"env"}])", R"({"tier":"none"})");
  ASSERT_TRUE(made.denied);
  EXPECT_EQ(made.denied->rule, "a");
  EXPECT_THAT(reasonOf(made), HasSubstr("does not grant the secret KEY as env"));
  EXPECT_THAT(reasonOf(made), HasSubstr("add it to the rule's secrets"));
}

TEST(SecretGrants, NameAndWayAndHostHaveToBeGranted) {
  const Policy policy = policyOf(kRules);
  const std::string none = R"({"tier":"none"})";
  EXPECT_FALSE(evaluated(policy, R"([{"name":"GH_TOKEN","as":"env"}])", none).denied);
  EXPECT_FALSE(evaluated(policy, R"([{"name":"GH_TOKEN","as":"file"}])", none).denied);
  EXPECT_TRUE(evaluated(policy, R"([{"name":"GHTOKEN","as":"env"}])", none).denied);
  EXPECT_TRUE(evaluated(policy, R"([{"name":"API","as":"env"}])", none).denied);
  EXPECT_FALSE(
      evaluated(policy, R"([{"name":"API","as":"broker","host":"api.example.com","header":"X"}])")
          .denied);
  EXPECT_TRUE(
      evaluated(policy, R"([{"name":"API","as":"broker","host":"b.example.com","header":"X"}])")
          .denied);
  EXPECT_TRUE(
      evaluated(policy, R"([{"name":"GH_A","as":"broker","host":"api.example.com","header":"X"}])")
          .denied);
  EXPECT_TRUE(
      evaluated(policy, R"([{"name":"GH_A","as":"env"},{"name":"OTHER","as":"env"}])", none).denied)
      << "each of them";
}

TEST(SecretGrants, ABrokeredDestinationIsInspectedAlone) {
  const Policy policy = policyOf(kRules);
  const Evaluation made =
      evaluated(policy, R"([{"name":"API","as":"broker","host":"a.example.org","header":"X"},
                            {"name":"API","as":"broker","host":"a.example.org","variable":"V"}])");
  ASSERT_TRUE(made.network) << reasonOf(made);
  std::vector<std::string> rules;
  for (const model::PlanRule& rule : made.network->rules)
    rules.push_back(destinationText(rule.entry) + (rule.entry.inspect ? " inspected" : ""));
  EXPECT_THAT(rules, ElementsAre("api.example.com:443 tls", "a.example.org:443 tls inspected",
                                 "*.example.org:443 tls", "plain.example.org:80 http",
                                 "api.example.com:9000 tcp"));
  EXPECT_EQ(made.network->rules[1].rule, "work");
}

TEST(SecretGrants, ADestinationOutsideThePlanDenies) {
  const Policy policy = policyOf(kRules);
  const std::string to =
      R"([{"name":"API","as":"broker","host":"api.example.com","port":PORT,"header":"X"}])";
  const auto with = [&](const std::string& port) {
    std::string text = to;
    return text.replace(text.find("PORT"), 4, port);
  };
  EXPECT_THAT(reasonOf(evaluated(policy, with("8443"))), HasSubstr("api.example.com:8443"));
  EXPECT_THAT(reasonOf(evaluated(policy, with("443"),
                                 R"({"tier":"restricted","allow":["b.example.org:443"]})")),
              HasSubstr("network_policy.allow"));
  EXPECT_THAT(reasonOf(evaluated(policy, with("9000"))), HasSubstr("\"protocol\": \"tls\""));
}

TEST(SecretGrants, PlainHttpIsNamed) {
  const Policy policy = policyOf(kRules);
  Supposed supposed = asking().suppose(
      R"({"request":{"language":"python","code":"1","network_policy":{"tier":"restricted"},
          "secrets":[{"name":"API","as":"broker","host":"plain.example.org","port":80,
                      "header":"X"}]}})");
  const std::vector<model::PlanSecret> brokered = {{.id = "s0",
                                                    .name = "API",
                                                    .version = 1,
                                                    .host = "plain.example.org",
                                                    .port = 80,
                                                    .header = "x",
                                                    .format = "{}",
                                                    .placeholder = "",
                                                    .methods = {},
                                                    .paths = {}}};
  Question question = supposed.question();
  question.brokered = &brokered;
  const Evaluation made = evaluate(policy, question);
  ASSERT_TRUE(made.network) << reasonOf(made);
  EXPECT_EQ(made.network->secrets, brokered);
  EXPECT_THAT(weakenedBySecrets(*made.network), ElementsAre(HasSubstr("over plain HTTP")));
  for (const model::PlanRule& rule : made.network->rules)
    EXPECT_FALSE(rule.entry.inspect);
}

TEST(SecretGrants, WarningsNameWideAndUselessGrants) {
  const Policy policy = policyOf(
      "  - {name: a, why: w, effect: allow, secrets: [{name: \"*\", as: [env]}, "
      "{name: K, as: [broker], hosts: [api.test]}]}\n");
  const auto warnings = warningsOf(policy, asking().parts());
  EXPECT_THAT(warnings, Contains(HasSubstr("grants every secret")));
  EXPECT_THAT(warnings, Contains(HasSubstr("\"api.test\" gets a secret")));
  for (const std::string& warning : warningsOf(policyOf(kRules), asking().parts()))
    EXPECT_THAT(warning, ::testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace cloister::policy

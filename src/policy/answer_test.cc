// SPDX-License-Identifier: Apache-2.0
#include "policy/answer.h"

#include <gmock/gmock.h>

#include "policy/explain.h"

namespace cloister::policy {
namespace {

namespace json = base::json;
using testing::HasSubstr;

class Answers : public testing::Test {
 protected:
  Answers() {
    who_.tenant = "acme";
    who_.agent = "coder";
    who_.roles = model::Role::kAgent;
    request_.deps = {"numpy==1.26.4", "@scope/x@2"};
    request_.metadata = {{"tool_type", "run_code"}, {"other", "hidden"}};
    request_.env = {{"A_TOKEN", "secret-value"}};
    request_.code = "secret-code";
    facts_ = {.command_risks = {"network"}, .variables = {"A_TOKEN"}};
  }
  [[nodiscard]] Question question() const {
    return {.request = request_,
            .principal = who_,
            .execution_id = {},
            .permit_id = "permit_1",
            .spec_sha256 = {},
            .prestart = {},
            .language = "python",
            .session_id = {},
            .runtimes = &runtimes_,
            .risk_facts = &facts_};
  }
  // Reads the answer with changed members; null removes a member.
  Result<Policy> read(const json::object& changes, json::object answer = allowing()) const {
    for (const auto& [name, value] : changes) {
      if (value.is_null()) {
        answer.erase(name);
      } else {
        answer[name] = value;
      }
    }
    return readAnswer(answer, question(), most_, "opa");
  }
  static json::object allowing() {
    return {{"version", 1},
            {"outcome", "allow"},
            {"rule", "r"},
            {"reason", "ok"},
            {"tier", "Assisted"},
            {"runtime", "process"},
            {"risk", json::object{{"score", 30}}},
            {"revision", "rev-7"}};
  }
  static json::object denying() {
    return {{"version", 1}, {"outcome", "deny"}, {"reason", "no"}, {"remedy", "ask"}};
  }

  model::RunRequest request_;
  model::Principal who_;
  RiskFacts facts_;
  std::vector<std::string> runtimes_ = {"process", "gvisor"};
  model::Limits most_ = model::defaultBounds().max;
};

TEST_F(Answers, TheQuestionHasTheFactsAndNoSecrets) {
  const json::object asked = questionJson(question(), most_);
  EXPECT_EQ(asked.at("version"), json::value(1));
  EXPECT_EQ(asked.at("operation"), json::value("run"));
  EXPECT_EQ(asked.at("session"), json::value(false));
  EXPECT_EQ(base::toJson(asked.at("principal")),
            R"({"tenant":"acme","app":"","agent":"coder","user":"","roles":["agent"]})");
  const json::object& request = asked.at("request").as_object();
  EXPECT_EQ(base::toJson(request.at("dependencies")),
            R"([{"name":"numpy","text":"numpy==1.26.4"},{"name":"@scope/x","text":"@scope/x@2"}])");
  EXPECT_EQ(request.at("tool_type"), json::value("run_code"));
  EXPECT_EQ(base::toJson(asked.at("risk")), R"({"commands":["network"],"variables":["A_TOKEN"]})");
  EXPECT_EQ(base::toJson(asked.at("runtimes")), R"(["process","gvisor"])");
  const std::string text = base::toJson(asked);
  EXPECT_THAT(text, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(text, testing::Not(HasSubstr("hidden")));
}

TEST_F(Answers, OneThatAllowsIsAPermitOfItsRevision) {
  request_.deps.clear();
  const auto policy = read({});
  ASSERT_TRUE(policy) << policy.error().message;
  const Decision decision = decide(*policy, question());
  const auto* permit = std::get_if<model::Permit>(&decision);
  ASSERT_NE(permit, nullptr);
  EXPECT_EQ(permit->fields().policy_id, "opa@rev-7");
  EXPECT_EQ(permit->fields().runtime, "process");
  const json::object shown = explain(*policy, question());
  EXPECT_EQ(shown.at("tier"), json::value("Assisted"));
  EXPECT_EQ(shown.at("rule"), json::value("r"));
  EXPECT_EQ(shown.at("risk").at("arithmetic"), json::value("30 (engine: opa) = 30"));
}

TEST_F(Answers, OneThatDeniesSaysWhy) {
  request_.deps.clear();
  const auto policy = read({}, denying());
  ASSERT_TRUE(policy) << policy.error().message;
  const auto denied = refusalOf(decide(*policy, question()));
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->rule, "");
  EXPECT_EQ(denied->reason, "no");
  EXPECT_EQ(denied->remedy, "ask");
  EXPECT_FALSE(denied->unavailable);
}

TEST_F(Answers, OneThatWantsApprovalHasToSayOfWhom) {
  request_.deps.clear();
  EXPECT_FALSE(read({{"outcome", "approve"}}));
  const json::object approval{{"roles", json::array{"admin"}}, {"quorum", 2}, {"ttl_seconds", 60}};
  const auto policy = read({{"outcome", "approve"}, {"approval", approval}});
  ASSERT_TRUE(policy) << policy.error().message;
  const Decision decision = decide(*policy, question());
  const auto* wanted = std::get_if<NeedsApproval>(&decision);
  ASSERT_NE(wanted, nullptr);
  EXPECT_THAT(wanted->approver_roles, testing::ElementsAre("admin"));
  EXPECT_EQ(wanted->quorum, 2U);
  EXPECT_FALSE(read({{"approval", approval}})) << "approval beside allow";
}

// The checks of our own rules also apply to any engine's answer.
TEST_F(Answers, NoAnswerGrantsWhatIsBeyondTheNodeOrTheRequest) {
  const auto reasonOf = [&](const Result<Policy>& policy) {
    const auto denied = refusalOf(decide(*policy, question()));
    return denied ? denied->reason : "it is allowed";
  };
  EXPECT_THAT(reasonOf(read({})), HasSubstr("dependencies"));
  request_.deps.clear();
  EXPECT_THAT(reasonOf(read({{"runtime", "microvm"}})), HasSubstr("is not offered by this node"));
  EXPECT_THAT(reasonOf(read({{"operations", json::array{"session"}}})), HasSubstr("operation"));
  const auto small = read({{"limits", json::object{{"memory_mb", 64}}}});
  EXPECT_EQ(reasonOf(small), "it is allowed") << "with the memory that the rule has";
  request_.named_limits.set();
  EXPECT_THAT(reasonOf(small), HasSubstr("more than this rule allows"));
  request_.runtime = "process";
  EXPECT_THAT(reasonOf(read({{"runtime", "gvisor"}})), HasSubstr("is weaker than"));
}

TEST_F(Answers, GrantsTheDestinationsThatItNames) {
  request_.deps.clear();
  request_.network = model::readNetworkRequest(
                         base::parseJson(R"({"tier":"restricted","allow":["a.example.com:443"]})")
                             .value()
                             .get_object(),
                         "network_policy")
                         .value();
  const json::value asked = questionJson(question(), most_).at("request").at("destinations");
  EXPECT_EQ(base::toJson(asked), R"([{"name":"a.example.com","ports":[443]}])");
  const auto granted = [&](json::object changes) {
    const auto policy = read(std::move(changes));
    EXPECT_TRUE(policy) << policy.error().message;
    return policy && !evaluate(*policy, question()).denied;
  };
  EXPECT_FALSE(granted({{"network", "restricted"}}));
  EXPECT_TRUE(granted({{"destinations", json::array{"a.example.com:443"}}}));
  EXPECT_FALSE(granted({{"destinations", json::array{"b.example.com:443"}}}));
  request_.network = {};
  request_.network.tier = "full";
  const json::array any = {json::object{{"name", "*"}}};
  EXPECT_TRUE(granted({{"network_tiers", json::array{"full"}}, {"destinations", any}}));
  EXPECT_FALSE(granted(
      {{"network_tiers", json::array{"api"}}, {"destinations", json::array{"a.example.com:443"}}}));
}

struct Bad {
  std::string_view what;
  std::string_view changes;
  std::string_view names;  // in the error
};

TEST_F(Answers, WhatIsNotWholeAndStrictIsRefused) {
  request_.tier = "Assisted";
  request_.network.tier = "none";
  const std::vector<Bad> bad = {
      {"no version", R"({"version":null})", "version"},
      {"another version", R"({"version":2})", "version"},
      {"no outcome", R"({"outcome":null})", "outcome"},
      {"an unknown outcome", R"({"outcome":"permit"})", "outcome"},
      {"an outcome of another type", R"({"outcome":true})", "outcome"},
      {"an unknown member", R"({"allow":true})", "allow"},
      {"no reason", R"({"reason":null})", "reason"},
      {"an empty reason", R"({"reason":""})", "reason"},
      {"a reason with a line end", R"({"reason":"a\nb"})", "reason"},
      {"no rule", R"({"rule":null})", "rule"},
      {"no tier", R"({"tier":null})", "tier"},
      {"an unknown tier", R"({"tier":"auto"})", "tier"},
      {"a tier below what was asked for", R"({"tier":"Auto"})", "tier"},
      {"no runtime", R"({"runtime":null})", "runtime"},
      {"an unknown runtime", R"({"runtime":"docker"})", "runtime"},
      {"another network", R"({"network":"full"})", "network"},
      {"an odd destination", R"({"destinations":["x"]})", "destinations[0]"},
      {"no destination", R"({"destinations":[]})", "destinations"},
      {"any name without the tier full", R"({"destinations":[{"name":"*"}]})", "destinations[0]"},
      {"more than the ceiling", R"({"limits":{"memory_mb":999999}})", "memory_mb"},
      {"an unknown limit", R"({"limits":{"ram":1}})", "ram"},
      {"a limit of another type", R"({"limits":{"pids":"many"}})", "pids"},
      {"limits that are a list", R"({"limits":[]})", "limits"},
      {"no operation", R"({"operations":[]})", "operations"},
      {"an unknown operation", R"({"operations":["fly"]})", "operations"},
      {"a score below zero", R"({"risk":{"score":-1}})", "risk.score"},
      {"no score", R"({"risk":{}})", "risk.score"},
      {"a remedy beside allow", R"({"remedy":"x"})", "remedy"},
      {"an approver of no role", R"({"outcome":"approve","approval":{"roles":["boss"]}})",
       "approval.roles"},
      {"a fallback", R"({"outcome":"approve","approval":{"fallback":"allow"}})", "fallback"},
  };
  for (const Bad& each : bad) {
    const json::value changes = base::parseJson(each.changes).value();
    const auto policy = read(changes.get_object());
    ASSERT_FALSE(policy) << each.what;
    EXPECT_THAT(policy.error().message, HasSubstr(each.names)) << each.what;
  }
  EXPECT_FALSE(read({{"tier", "Auto"}}, denying())) << "a tier beside deny";
  EXPECT_TRUE(read({})) << "what the others are changes of";
}

}  // namespace
}  // namespace cloister::policy

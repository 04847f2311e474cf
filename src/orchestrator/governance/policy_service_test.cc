// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/governance/policy_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "orchestrator/runs/service_fixture.h"
#include "store/sql/raw_testing.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kOpen =
    "version: 2\nrules:\n  - {name: open, why: for tests, effect: allow, tier: Auto}\n";
constexpr std::string_view kClosed =
    "version: 2\nrules:\n  - {name: closed, why: closed now, effect: deny}\n";
constexpr std::string_view kAsk =
    "version: 2\nrules:\n  - {name: ask, why: somebody must look, effect: approve, tier: Auto}\n";

class PolicyServiceTest : public ServiceTest {
 protected:
  PolicyServiceTest() {
    levels_ = policy::parseLevels(
                  base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
                  .value();
  }
  ~PolicyServiceTest() override { background_.join(); }

  Result<> start(std::string_view document, bool chosen = true) {
    open();
    policies_ = std::make_unique<PolicyService>(
        control_, PolicyService::Parts{policy_, levels_, bounds_, embedded_},
        PolicyConfig{.max = bounds_.max, .history = 100, .replay = 50});
    return policies_->open({.name = "file", .text = std::string(document), .chosen = chosen});
  }
  Result<store::PolicyVersion> apply(std::string_view document,
                                     std::optional<int64_t> expected = std::nullopt) {
    store::NewPolicy wanted;
    wanted.policy.name = "test";
    wanted.policy.document = document;
    wanted.expected = expected;
    return await(policies_->apply(administrator(), std::move(wanted)));
  }
  static model::Principal administrator() {
    model::Principal who = principal("default");
    who.roles = model::Role::kAdmin;
    return who;
  }
  // Damages the database behind the ledger's back, as an outside program would.
  void damage(const std::string& sql) {
    close();
    store::testing::RawFile(dir_ + "/ledger.db").run(sql);
  }

  policy::Levels levels_;
  model::RequestBounds bounds_ = model::defaultBounds();
  std::unique_ptr<PolicyService> policies_;
};

TEST_F(PolicyServiceTest, WhatIsAppliedDecidesAtOnce) {
  ASSERT_TRUE(start(kOpen));
  const auto before = finished({"echo", "x"});
  EXPECT_EQ(before.status, Status::kCompleted);
  EXPECT_THAT(before.provenance.policy_id, HasSubstr("file@v1.sha256:"));
  const auto applied = apply(kClosed);
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(applied->version, 2);
  const auto after = run({"echo", "x"});
  ASSERT_TRUE(after);
  EXPECT_EQ(after->status, Status::kDenied);
  EXPECT_THAT(after->error->message, HasSubstr("closed now"));
  EXPECT_THAT(after->provenance.policy_id, HasSubstr("test@v2.sha256:"));
  EXPECT_THAT(auditOf("policy:2"), Contains("policy.applied"));
  EXPECT_EQ(detailsOf("policy:2", "policy.applied").at("sha256").as_string(), applied->sha256);
}

TEST_F(PolicyServiceTest, WhatIsWrongChangesNothing) {
  ASSERT_TRUE(start(kOpen));
  const auto bad = apply("version: 2\nrules:\n  - {name: x}\n");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("line 3: rules[0].why"));
  const auto late = apply(kClosed, 7);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kConflict);
  EXPECT_EQ(policies_->version(), 1);
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
}

TEST_F(PolicyServiceTest, AFullDiskLeavesThePolicyThatIsThere) {
  ASSERT_TRUE(start(kOpen));
  store_->full = true;
  EXPECT_FALSE(apply(kClosed));
  store_->full = false;
  EXPECT_EQ(policies_->version(), 1);
}

TEST_F(PolicyServiceTest, ItStaysOverARestartUntilTheFileIsAnother) {
  ASSERT_TRUE(start(kOpen));
  ASSERT_TRUE(apply(kClosed));
  close();
  ASSERT_TRUE(start(kOpen));  // the same file: the applied version stays
  EXPECT_EQ(policies_->version(), 2);
  EXPECT_EQ(policy_.get()->rules[0].name, "closed");
  close();
  ASSERT_TRUE(start(kAsk));  // another file: the operator's choice
  EXPECT_EQ(policies_->version(), 3);
  EXPECT_EQ(policy_.get()->rules[0].name, "ask");
}

TEST_F(PolicyServiceTest, TheInstallationsOwnFileNeverReplacesWhatWasApplied) {
  ASSERT_TRUE(start(kOpen, false));
  ASSERT_TRUE(apply(kClosed));
  close();
  ASSERT_TRUE(start(kAsk, false));  // as after an upgrade
  EXPECT_EQ(policies_->version(), 2);
  EXPECT_EQ(policy_.get()->rules[0].name, "closed");
}

TEST_F(PolicyServiceTest, ADamagedVersionDeniesEverythingUntilAnotherIsApplied) {
  ASSERT_TRUE(start(kOpen));
  damage("UPDATE policies SET document=CAST('" + std::string(kAsk) + "' AS BLOB)");
  ASSERT_TRUE(start(kOpen));
  const auto denied = run({"echo", "x"});
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->status, Status::kDenied);
  EXPECT_THAT(denied->error->message, HasSubstr("version 1 is damaged"));
  const auto ready = service_->ready();
  ASSERT_FALSE(ready);
  EXPECT_THAT(ready.error().message, HasSubstr("policy cannot be used"));
  ASSERT_TRUE(apply(kOpen));
  EXPECT_TRUE(service_->ready());
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
}

TEST_F(PolicyServiceTest, AVersionThatCannotBeReadDeniesToo) {
  ASSERT_TRUE(start(kOpen));
  const std::string text = "version: 9\n";
  damage("UPDATE policies SET document=CAST('" + text + "' AS BLOB), sha256='" +
         base::sha256Hex(text) + "'");
  ASSERT_TRUE(start(kOpen, false));
  EXPECT_EQ(run({"echo", "x"})->status, Status::kDenied);
  EXPECT_THAT(service_->ready().error().message, HasSubstr("version 1 cannot be read"));
}

TEST_F(PolicyServiceTest, ARollbackIsTheNextVersion) {
  ASSERT_TRUE(start(kOpen));
  ASSERT_TRUE(apply(kClosed));
  const auto back = await(policies_->rollBack(administrator(), 1, 2, "too strict"));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->version, 3);
  EXPECT_EQ(back->restores, 1);
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
  EXPECT_THAT(auditOf("policy:3"), Contains("policy.rolled_back"));
  const auto none = await(policies_->rollBack(administrator(), 9, std::nullopt, ""));
  EXPECT_EQ(none.error().code, Code::kNotFound);
}

TEST_F(PolicyServiceTest, ARunThatNeedsApprovalIsBlockedAndSaysWhoDecides) {
  ASSERT_TRUE(start(kAsk));
  const auto blocked = run({"echo", "x"});
  ASSERT_TRUE(blocked);
  EXPECT_EQ(blocked->status, Status::kBlocked);
  EXPECT_EQ(blocked->error->type, model::error_type::kApprovalRequired);
  EXPECT_EQ(base::toJson(blocked->error->details.at("required_roles")), R"(["approver"])");
  EXPECT_EQ(blocked->error->details.at("rule").as_string(), "ask");
}

TEST_F(PolicyServiceTest, TheReplayShowsTheDecisionsThatWouldChange) {
  ASSERT_TRUE(start(kOpen));
  finished({"echo", "mine"});
  ended(accepted({"echo", "other"}, "other"), "other");
  const std::string body = R"({"document":")"
                           R"(version: 2\nrules:\n  - {name: closed, why: shut, effect: deny}\n)"
                           R"(","recent":10})";
  const auto question = base::parseJson(body).value().as_object();
  const auto all = await(policies_->diff(administrator(), question));
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(base::toJson(all->at("added")), R"(["closed"])");
  const auto& changes = all->at("replay").at("changes").as_array();
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].at("from").at("decision").as_string(), "allow");
  EXPECT_EQ(changes[0].at("to").at("decision").as_string(), "deny");
  const auto& groups = all->at("replay").at("groups").as_array();
  ASSERT_EQ(groups.size(), 1U) << "both go from the same rule to the same rule";
  const auto& group = groups[0].as_object();
  EXPECT_EQ(group.at("count").as_int64(), 2);
  EXPECT_EQ(group.at("rule").as_string(), "closed");
  EXPECT_EQ(group.at("reason").as_string(), "shut");
  EXPECT_EQ(
      base::toJson(group.at("from")),
      R"({"decision":"allow","rule":"open","tier":"Auto","runtime":"process","network":null})");
  EXPECT_EQ(base::toJson(group.at("to")),
            R"({"decision":"deny","rule":"closed","tier":null,"runtime":null,"network":null})");
  EXPECT_EQ(group.at("examples").as_array().size(), 2U);
  model::Principal theirs = principal("other");
  theirs.roles = model::Role::kTenantAdmin;
  const auto own = await(policies_->diff(theirs, question));
  ASSERT_TRUE(own);
  EXPECT_EQ(own->at("replay").at("changes").as_array().size(), 1U);
  const auto too_many = await(policies_->diff(administrator(), base::json::object{{"recent", 51}}));
  EXPECT_EQ(too_many.error().field, "recent");
}

constexpr std::string_view kNetwork = R"(version: 2
rules:
  - name: net
    why: for tests
    effect: allow
    tier: Auto
    match: {tenants: [acme], network_tiers: [none, restricted, full]}
    network:
      - {name: "*.example.org", ports: [443], why: the catalogue}
      - {name: m.example.net, ports: [80], methods: [GET], paths: ["/a/*"], on_denied: escalate}
      - {name: i.example.net, ports: [443], inspect: true, methods: [GET], paths: ["/a/*"]}
      - {name: "*"}
)";

class ExplainEgress : public PolicyServiceTest {
 protected:
  Result<base::json::object> ask(std::string_view body, std::string tenant = "acme") {
    model::Principal asker = principal(tenant);
    asker.roles = model::Role::kOperator;
    base::json::object question = base::parseJson(body).value().get_object();
    question.emplace("language", "command");
    return await(policies_->explainEgress(asker, std::move(question)));
  }
  static std::string text(const base::json::object& answer, std::string_view name) {
    const base::json::string* value = answer.at(name).if_string();
    return value == nullptr ? "" : std::string(*value);
  }
};

TEST_F(ExplainEgress, SaysWhichRuleAllowsAUrl) {
  ASSERT_TRUE(start(kNetwork));
  const auto answer = ask(R"({"url":"https://a.example.org/x?y=1"})");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->at("allowed"), base::json::value(true));
  EXPECT_EQ(text(*answer, "rule"), "net");
  EXPECT_EQ(text(*answer, "reason"), "the catalogue");
  EXPECT_EQ(text(*answer, "tier"), "restricted");
  EXPECT_TRUE(answer->at("remedy").is_null());
  EXPECT_EQ(text(answer->at("entry").as_object(), "name"), "*.example.org");
  for (const char* url : {"a.example.org:443", "wss://a.example.org/", "http://m.example.net/a/b"})
    EXPECT_EQ(ask(R"({"url":")" + std::string(url) + "\"}")->at("allowed"), base::json::value(true))
        << url;
}

TEST_F(ExplainEgress, SaysWhyAndWhatHelpsWhereItIsDenied) {
  ASSERT_TRUE(start(kNetwork));
  const char* const denied[] = {R"({"url":"https://evil.example.com/"})",
                                R"({"url":"http://a.example.org/"})",
                                R"({"url":"https://a.example.org:8443/"})",
                                R"({"url":"http://m.example.net/b"})",
                                R"({"url":"http://m.example.net/a/../b"})",
                                R"({"url":"http://m.example.net/a/b","method":"POST"})",
                                R"({"url":"http://169.254.169.254/latest"})",
                                R"({"url":"https://[2001:db8::1]/"})",
                                R"({"url":"https://a.example.org/","network":"none"})",
                                R"({"url":"https://a.example.org/","network":"internal"})"};
  for (const char* body : denied) {
    const auto answer = ask(body);
    ASSERT_TRUE(answer) << body << answer.error().message;
    EXPECT_EQ(answer->at("allowed"), base::json::value(false)) << body;
    EXPECT_NE(text(*answer, "reason"), "") << body;
    EXPECT_NE(text(*answer, "remedy"), "") << body;
  }
  const auto asks = ask(R"({"url":"http://m.example.net/b"})");
  EXPECT_EQ(text(*asks, "rule"), "net");
  EXPECT_EQ(text(*asks, "on_denied"), "escalate");
  EXPECT_EQ(ask(R"({"url":"https://evil.example.com/","network":"full"})")->at("allowed"),
            base::json::value(true));
}

// The answer is that of cloister-egress, which reads the requests within inspected TLS.
TEST_F(ExplainEgress, JudgesTheRequestWithinInspectedTls) {
  ASSERT_TRUE(start(kNetwork));
  EXPECT_EQ(ask(R"({"url":"https://i.example.net/a/b"})")->at("allowed"), base::json::value(true));
  const auto method = ask(R"({"url":"https://i.example.net/a/b","method":"DELETE"})");
  EXPECT_EQ(method->at("allowed"), base::json::value(false));
  EXPECT_THAT(text(*method, "reason"), HasSubstr("DELETE"));
  EXPECT_EQ(ask(R"({"url":"https://i.example.net/b"})")->at("allowed"), base::json::value(false));
  EXPECT_EQ(ask(R"({"url":"https://a.example.org/b","method":"DELETE"})")->at("allowed"),
            base::json::value(true))
      << "not inspected";
}

TEST_F(ExplainEgress, NamesThatCarryDataAreRefusedAndCaseDoesNotMatter) {
  ASSERT_TRUE(start(kNetwork));
  const auto data = ask(R"({"url":"https://)" + std::string(41, 'a') + R"(.example.org/"})");
  EXPECT_EQ(data->at("allowed"), base::json::value(false));
  EXPECT_THAT(text(*data, "reason"), HasSubstr("A label is too long"));
  EXPECT_THAT(text(*data, "remedy"), HasSubstr("name of the host itself"));
  EXPECT_EQ(ask(R"({"url":"https://A.Example.ORG/"})")->at("allowed"), base::json::value(true));
}

TEST_F(ExplainEgress, AnswersForTheAskersTenant) {
  ASSERT_TRUE(start(kNetwork));
  constexpr std::string_view kOther =
      R"({"url":"https://a.example.org/","principal":{"tenant":"other"}})";
  EXPECT_EQ(ask(kOther).error().code, Code::kDenied);
  EXPECT_EQ(ask(R"({"url":"https://a.example.org/","version":1})").error().code, Code::kDenied);
  const auto own = ask(R"({"url":"https://a.example.org/","document":)" +
                       base::toJson(base::json::string(kOpen)) + "}");
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->at("allowed"), base::json::value(false)) << "the document grants no destination";
  EXPECT_EQ(ask(R"({"url":"https://a.example.org/"})", "other")->at("allowed"),
            base::json::value(false))
      << "no rule is for the tenant";
}

TEST_F(ExplainEgress, AnApprovalOfTheRunCountsAsNo) {
  ASSERT_TRUE(start(kNetwork));
  std::string document(kNetwork);
  document.replace(document.find("effect: allow"), 13, "effect: approve");
  const auto answer = ask(R"({"url":"https://a.example.org/","document":)" +
                          base::toJson(base::json::string(document)) + "}");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->at("allowed"), base::json::value(false));
  EXPECT_THAT(text(*answer, "reason"), HasSubstr("needs approval"));
}

TEST_F(ExplainEgress, OddQuestionsNameTheMember) {
  ASSERT_TRUE(start(kNetwork));
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{}", "url"},
      {R"({"url":"a.example.org"})", "url"},
      {R"({"url":"ftp://a.example.org/"})", "url"},
      {R"({"url":"https://u:p@a.example.org/"})", "url"},
      {R"({"url":"https://a.example.org:0/"})", "url"},
      {R"({"url":"tcp://a.example.org"})", "url"},
      {R"({"url":"https://"})", "url"},
      {R"({"url":"https://[::1/"})", "url"},
      {R"({"url":"https://a.example.org/","method":"G T"})", "method"},
      {R"({"url":"https://a.example.org/","odd":1})", "odd"},
      {R"({"url":"https://a.example.org/","network":"all"})", "request.network_policy.tier"},
  };
  for (const auto& [body, field] : cases)
    EXPECT_EQ(ask(body).error().field, field) << body;
}

}  // namespace
}  // namespace cloister::orchestrator

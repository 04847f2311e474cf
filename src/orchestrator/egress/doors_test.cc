// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/egress/doors.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/id.h"
#include "orchestrator/core/brittle_store.h"
#include "orchestrator/core/counting_metrics.h"
#include "orchestrator/egress/attempts.h"
#include "orchestrator/egress/egress_testing.h"
#include "policy/current.h"
#include "store/open.h"

namespace cloister::orchestrator {
namespace {

struct HeardAsks final : Doors::Asker {
  void wanted(const wire::egress::Wanted& one, const DoorOwner& owner) override {
    wants.emplace_back(one.host, owner.subject());
  }
  std::vector<model::PlanRule> granted(const std::string& permit) override {
    const auto found = grants.find(permit);
    return found == grants.end() ? std::vector<model::PlanRule>() : found->second;
  }
  void refused(const DoorOwner& owner, const wire::egress::Attempts& attempt) override {
    refusals.emplace_back(owner.subject(), attempt.host);
  }
  void closed(const std::string& permit) override { closings.push_back(permit); }

  std::vector<std::pair<std::string, std::string>> wants;
  std::vector<std::pair<std::string, std::string>> refusals;
  std::vector<std::string> closings;
  std::map<std::string, std::vector<model::PlanRule>> grants;
};

class DoorsTest : public testing::Test {
 protected:
  DoorsTest() {
    std::filesystem::create_directory(dir_);
    store::SqliteOptions options;
    options.path = dir_ + "/ledger.db";
    store_ = std::make_unique<BrittleStore>(store::openSqlite(options).value());
    policy_.set(policy::brokenPolicy("none", "for tests"));
    Doors::Terms terms{.look = Millis(10)};
    terms.link.answer = Millis(500);
    terms.link.connect = Millis(50);
    terms.link.retry = Millis(5);
    doors_ = std::make_unique<Doors>(io_.get_executor(),
                                     DoorParts{*store_, key_, engine_, metrics_}, terms);
    doors_->ask(asker_);
  }
  ~DoorsTest() override {
    io_.shutdown();
    restarted_.reset();
    doors_.reset();
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  void start() {
    doors_->start(egress_.connect());
    egress_.until([&] { return doors_->link()->connected(); });
  }
  void connectAgain() {
    async::spawn(io_.get_executor(), EgressLink::serve(doors_->link(), egress_.connect()));
    egress_.until([&] { return doors_->link()->connected(); });
  }
  Result<std::string> open(const std::string& permit, DoorSecrets secrets = {}) {
    auto sent = send(permit, std::move(secrets));
    if (!sent) return std::unexpected(std::move(sent).error());
    return opened(permit);
  }
  Result<std::string> opened(const std::string& permit) {
    return async::runTask(io_, doors_->confirm(permit));
  }
  Result<> send(const std::string& permit, DoorSecrets secrets = {}) {
    DoorOwner owner;
    owner.principal.tenant = "acme";
    owner.principal.agent = "agent";
    owner.execution_id = "exec_" + permit;
    now_[permit] = planOf(permit);
    return async::runTask(io_, doors_->open(
                                   planOf(permit), owner,
                                   [this, permit]() -> Task<std::optional<model::NetworkPlan>> {
                                     co_return now_[permit];
                                   },
                                   std::move(secrets)));
  }
  std::vector<std::string> actions() {
    std::vector<std::string> all;
    for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000))
      all.push_back(entry.event.action);
    return all;
  }
  [[nodiscard]] bool signedByUs(const model::SignedPlan& plan) const {
    return key_.verifyKey().verify(plan.encoded, plan.signature);
  }
  static model::PlanRule grantOf(const std::string& host) {
    model::PlanRule rule = planOf("p", host).rules[0];
    rule.rule = "ESC-2026-001";
    return rule;
  }

  std::string dir_ = "/tmp/cloister-test-" + base::randomHex(8);
  EgressIo io_;
  ScriptedEgress egress_{io_};
  policy::Current policy_;
  EmbeddedEngine engine_{policy_};
  base::SigningKey key_ = base::SigningKey::generate();
  CountingMetrics metrics_;
  std::unique_ptr<BrittleStore> store_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<Doors> restarted_;
  std::shared_ptr<HeardAsks> asker_ = std::make_shared<HeardAsks>();
  std::map<std::string, std::optional<model::NetworkPlan>> now_;  // policy's answer
};

TEST_F(DoorsTest, SignsAndSendsTheFirstPlan) {
  start();
  ASSERT_TRUE(open("p1"));
  ASSERT_EQ(egress_.plans.size(), 1U);
  EXPECT_EQ(egress_.plans[0], planOf("p1"));
  EXPECT_TRUE(signedByUs(egress_.signed_plans[0]));
  EXPECT_EQ(metrics_.open_doors, 1U);
  EXPECT_EQ(metrics_.plans["start"], 1);
  EXPECT_TRUE(metrics_.egress_connected);
}

TEST_F(DoorsTest, SendsSecretsBeforeEachPlan) {
  start();
  egress_.certificate = "certificate";
  DoorSecrets secrets;
  secrets.values = {{"s0", "a secret value"}};
  const auto opened = open("p1", std::move(secrets));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(*opened, "certificate");
  ASSERT_EQ(egress_.secrets.size(), 1U);
  EXPECT_EQ(egress_.secrets[0].permit, "p1");
  EXPECT_EQ(egress_.secrets[0].values.at(0).value, "a secret value");
  EXPECT_EQ(egress_.secrets_before[0], 0U) << "a plan without its values would refuse requests";
  ASSERT_TRUE(open("p2"));
  EXPECT_EQ(egress_.secrets.size(), 1U) << "a door without secrets";
  egress_.hangUp();
  egress_.until([&] { return !doors_->link()->connected(); });
  const size_t plans = egress_.plans.size();
  connectAgain();
  egress_.until([&] { return egress_.plans.size() == plans + 2; });
  EXPECT_EQ(egress_.secrets.size(), 2U) << "a new process has none";
}

TEST_F(DoorsTest, RecordsAttemptsWithoutSecrets) {
  start();
  DoorSecrets secrets;
  secrets.redacted = [](const std::string& text) {
    return text.contains("hunter22") ? "[secret]" : text;
  };
  ASSERT_TRUE(open("p1", std::move(secrets)));
  wire::egress::Batch batch{.number = 1, .attempts = {attemptOf("p1", "hunter22.evil.test")}};
  egress_.report(batch);
  egress_.until([&] { return !egress_.taken.empty(); });
  std::string rows;
  for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000))
    rows += base::toJson(entry.event.details);
  EXPECT_FALSE(rows.contains("hunter22")) << rows;
  EXPECT_TRUE(rows.contains("[secret]")) << rows;
}

TEST_F(DoorsTest, OpensNothingWithoutConnection) {
  const auto refused = open("p1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInternal) << "no node is lost";
  EXPECT_TRUE(refused.error().message.contains("not connected"));
  EXPECT_EQ(metrics_.open_doors, 0U);
}

TEST_F(DoorsTest, OpensNothingThatIsRefused) {
  start();
  egress_.refusal = Error{Code::kQuota, "too many plans", ""};
  const auto refused = open("p1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kQuota);
  EXPECT_EQ(metrics_.open_doors, 0U);
}

TEST_F(DoorsTest, SendsAPlanWithoutWaitingForTheAnswer) {
  start();
  egress_.silent = true;
  ASSERT_TRUE(send("p1"));
  EXPECT_EQ(metrics_.open_doors, 1U);
  EXPECT_EQ(metrics_.plans["start"], 0) << "not in force";
  const auto late = opened("p1");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kInternal) << "no node is lost";
  EXPECT_EQ(metrics_.open_doors, 0U);
  EXPECT_EQ(opened("p1").error().code, Code::kInternal) << "no such door";
}

TEST_F(DoorsTest, ADoorWhosePlanIsNotAnsweredGetsNoLaterPlan) {
  start();
  egress_.silent = true;
  ASSERT_TRUE(send("p1"));
  egress_.until([&] { return egress_.plans.size() == 1; });
  now_["p1"] = planOf("p1", "b.test");
  const auto end = base::monotonicNow() + Millis(100);  // several looks
  egress_.until([&] { return base::monotonicNow() > end; });
  EXPECT_EQ(egress_.plans.size(), 1U);
}

TEST_F(DoorsTest, ForgetsAClosedDoor) {
  start();
  ASSERT_TRUE(open("p1"));
  doors_->close("p1");
  egress_.until([&] { return !egress_.forgotten.empty(); });
  EXPECT_EQ(egress_.forgotten, std::vector<std::string>{"p1"});
  EXPECT_EQ(asker_->closings, std::vector<std::string>{"p1"});
  EXPECT_EQ(metrics_.open_doors, 0U);
  const auto use = async::runTask(io_, doors_->use("p1"));
  ASSERT_FALSE(use);
  EXPECT_EQ(use.error().code, Code::kNotFound);
}

TEST_F(DoorsTest, AsksForTheUse) {
  start();
  ASSERT_TRUE(open("p1"));
  egress_.use.connections = 4;
  const auto use = async::runTask(io_, doors_->use("p1"));
  ASSERT_TRUE(use);
  EXPECT_EQ(use->connections, 4U);
}

TEST_F(DoorsTest, SendsEveryPlanAgainAfterAReconnection) {
  start();
  ASSERT_TRUE(open("p1"));
  ASSERT_TRUE(open("p2"));
  egress_.hangUp();
  egress_.until([&] { return !doors_->link()->connected(); });
  EXPECT_FALSE(metrics_.egress_connected);
  connectAgain();
  egress_.until([&] { return egress_.plans.size() == 4; });
  EXPECT_EQ(egress_.plans[2].permit, "p1");
  EXPECT_EQ(egress_.plans[3].permit, "p2");
}

TEST_F(DoorsTest, SendsALaterPlanWhenPolicyChanges) {
  start();
  ASSERT_TRUE(open("p1"));
  now_["p1"] = planOf("p1", "b.test");
  egress_.until([&] { return egress_.plans.size() == 2; });
  EXPECT_EQ(egress_.plans[1].generation, 2U);
  EXPECT_EQ(egress_.plans[1].rules[0].entry.name, "b.test");
  EXPECT_TRUE(signedByUs(egress_.signed_plans[1]));
  EXPECT_EQ(actions(), std::vector<std::string>{"network.planned"});
  EXPECT_EQ(metrics_.plans["later"], 1);
}

TEST_F(DoorsTest, DeniesEverythingWherePolicyDeniesTheSandbox) {
  start();
  ASSERT_TRUE(open("p1"));
  asker_->grants["p1"] = {grantOf("c.test")};
  now_["p1"] = std::nullopt;
  egress_.until([&] { return egress_.plans.size() == 2; });
  EXPECT_TRUE(egress_.plans[1].rules.empty()) << "an approval lifts no denial";
}

TEST_F(DoorsTest, SendsNothingWhileNothingChanges) {
  start();
  ASSERT_TRUE(open("p1"));
  io_.run_for(std::chrono::milliseconds(60));
  EXPECT_EQ(egress_.plans.size(), 1U);
}

TEST_F(DoorsTest, AddsApprovedDestinationsAndTakesThemAway) {
  start();
  ASSERT_TRUE(open("p1"));
  asker_->grants["p1"] = {grantOf("c.test")};
  egress_.until([&] { return egress_.plans.size() == 2; });
  ASSERT_EQ(egress_.plans[1].rules.size(), 2U);
  EXPECT_EQ(egress_.plans[1].rules[0].rule, "ESC-2026-001");
  asker_->grants.clear();
  egress_.until([&] { return egress_.plans.size() == 3; });
  EXPECT_EQ(egress_.plans[2].rules, planOf("p1").rules);
  EXPECT_EQ(egress_.plans[2].generation, 3U);
}

TEST_F(DoorsTest, AddsNothingThatTheLedgerRefuses) {
  start();
  ASSERT_TRUE(open("p1"));
  store_->full = true;
  auto other = planOf("p1", "b.test");
  now_["p1"] = other;
  egress_.until([&] { return egress_.plans.size() == 2; });
  EXPECT_TRUE(egress_.plans[1].rules.empty()) << "only what is taken away is in force";
  store_->full = false;
  egress_.until([&] { return egress_.plans.size() == 3; });
  EXPECT_EQ(egress_.plans[2].rules, other.rules);
}

TEST_F(DoorsTest, TakesRulesAwayWhileTheLedgerRefuses) {
  start();
  ASSERT_TRUE(open("p1"));
  store_->full = true;
  now_["p1"] = std::nullopt;
  egress_.until([&] { return egress_.plans.size() == 2; });
  EXPECT_TRUE(actions().empty());
  store_->full = false;
  egress_.until([&] { return !actions().empty(); });
  EXPECT_EQ(actions(), std::vector<std::string>{"network.planned"});
}

// All doors at once, while the rows of what is added wait for a ledger that does not answer.
TEST_F(DoorsTest, TakesRulesAwayWithinASecondWhateverTheLedgerDoes) {
  constexpr size_t kDoors = 20;
  start();
  for (size_t i = 0; i < kDoors; ++i)
    ASSERT_TRUE(open("p" + std::to_string(i)));
  store_->stuck = true;
  const auto began = base::monotonicNow();
  for (size_t i = 0; i < kDoors; ++i)
    now_["p" + std::to_string(i)] = planOf("p" + std::to_string(i), "b.test");
  egress_.until([&] { return egress_.plans.size() == 2 * kDoors; });
  EXPECT_LT(base::monotonicNow() - began, std::chrono::seconds(1));
  for (size_t i = kDoors; i < egress_.plans.size(); ++i)
    EXPECT_TRUE(egress_.plans[i].rules.empty()) << "nothing is added without its row";
  store_->letGo();
  egress_.until([&] { return egress_.plans.size() == 3 * kDoors; });
  EXPECT_EQ(egress_.plans.back().rules, planOf("p", "b.test").rules);
}

// A row at the ledger delays no later removal.
TEST_F(DoorsTest, TakesRulesAwayWhileAnAdditionIsWritten) {
  start();
  ASSERT_TRUE(open("p1"));
  store_->stuck = true;
  asker_->grants["p1"] = {grantOf("c.test")};
  egress_.until([&] { return store_->waiting() == 1; });
  io_.run_for(std::chrono::milliseconds(600));
  EXPECT_EQ(egress_.plans.size(), 1U);
  const auto began = base::monotonicNow();
  now_["p1"]->rules.clear();
  egress_.until([&] { return egress_.plans.size() == 2; });
  EXPECT_LT(base::monotonicNow() - began, std::chrono::milliseconds(300)) << "it waits no more";
  EXPECT_TRUE(egress_.plans[1].rules.empty());
  store_->letGo();
  egress_.until([&] { return egress_.plans.size() == 3; });
  ASSERT_EQ(egress_.plans[2].rules.size(), 1U);
  EXPECT_EQ(egress_.plans[2].rules[0].entry.name, "c.test");
  EXPECT_GT(egress_.plans[2].generation, egress_.plans[1].generation);
}

TEST_F(DoorsTest, RefusesConnectionsWhileTheLedgerDoes) {
  start();
  store_->full = true;
  egress_.until([&] { return !egress_.stops.empty(); });
  EXPECT_TRUE(egress_.stops.back());
  EXPECT_TRUE(metrics_.egress_refuses);
  store_->full = false;
  egress_.until([&] { return egress_.stops.size() == 2; });
  EXPECT_FALSE(egress_.stops.back());
  EXPECT_FALSE(metrics_.egress_refuses);
}

TEST_F(DoorsTest, RecordsAttemptsOfOpenAndClosedDoors) {
  start();
  ASSERT_TRUE(open("p1"));
  ASSERT_TRUE(open("p2"));
  doors_->close("p2");
  egress_.report({.number = 1,
                  .attempts = {attemptOf("p1", "a.test", true), attemptOf("p2", "evil.test"),
                               attemptOf("p2", "evil.test")},
                  .left_out = 3});
  egress_.until([&] { return !egress_.taken.empty(); });
  std::vector<std::string> subjects;
  for (const auto& entry : *store_->audit(store::Scope::ofTenant("acme"), 0, 1000)) {
    EXPECT_EQ(entry.event.action, "network.attempts");
    subjects.push_back(entry.event.subject);
  }
  EXPECT_EQ(subjects, (std::vector<std::string>{"exec_p1", "exec_p2"}));
  EXPECT_EQ(metrics_.allowed_attempts, 2U);
  EXPECT_EQ(metrics_.denied_attempts, 4U);
  EXPECT_EQ(metrics_.network_bytes, 45U);
  EXPECT_EQ(metrics_.left_out, 3U);
  ASSERT_EQ(asker_->refusals.size(), 1U) << "once for each destination of a door";
  EXPECT_EQ(asker_->refusals[0], std::pair(std::string("exec_p2"), std::string("evil.test")));
}

// The ledger was written, and the process died before cloister-egress was told.
TEST_F(DoorsTest, RecordsABatchOnceAlsoAfterACrash) {
  start();
  egress_.report({.number = 8, .attempts = {attemptOf("p1", "a.test")}, .left_out = 1});
  egress_.until([&] { return !egress_.taken.empty(); });
  egress_.hangUp();
  egress_.taken.clear();
  restarted_ = std::make_unique<Doors>(io_.get_executor(),
                                       DoorParts{*store_, key_, engine_, metrics_}, Doors::Terms{});
  restarted_->start(egress_.connect(9));
  egress_.report({.number = 8, .attempts = {attemptOf("p1", "a.test")}, .left_out = 1});
  egress_.report({.number = 9, .attempts = {attemptOf("p1", "b.test")}, .left_out = 0});
  egress_.until([&] { return !egress_.taken.empty() && egress_.taken.back() == 9; });
  std::vector<uint64_t> batches;
  for (const auto& entry : *store_->audit(store::Scope::allTenants(), 0, 1000))
    batches.push_back(batchOf(entry.event));
  EXPECT_EQ(batches, (std::vector<uint64_t>{8, 8, 9})) << "batch 8 has a row for what it left out";
}

TEST_F(DoorsTest, PassesOnWhatAnApproverIsAskedFor) {
  start();
  ASSERT_TRUE(open("p1"));
  egress_.say(wire::egress::FromEgress::kWanted, 0,
              wire::egress::encodeWanted({.permit = "p1",
                                          .host = "b.test",
                                          .port = 443,
                                          .protocol = "tls",
                                          .rule = "",
                                          .program = ""}));
  egress_.say(wire::egress::FromEgress::kWanted, 0,
              wire::egress::encodeWanted({.permit = "unknown",
                                          .host = "b.test",
                                          .port = 443,
                                          .protocol = "tls",
                                          .rule = "",
                                          .program = ""}));
  egress_.until([&] { return !asker_->wants.empty(); });
  io_.poll();
  ASSERT_EQ(asker_->wants.size(), 1U);
  EXPECT_EQ(asker_->wants[0].second, "exec_p1");
}

TEST_F(DoorsTest, ShutsADoorWhoseLaterPlanIsRefused) {
  start();
  ASSERT_TRUE(open("p1"));
  egress_.refusal = Error{Code::kQuota, "too many plans", ""};
  now_["p1"] = planOf("p1", "b.test");
  egress_.until([&] { return !egress_.forgotten.empty(); });
  EXPECT_EQ(egress_.forgotten, std::vector<std::string>{"p1"});
}

TEST(Plans, NarrowOnlyWithoutAnAddition) {
  const auto before = planOf("p", "a.test");
  EXPECT_TRUE(onlyNarrows(before, before));
  auto less = before;
  less.rules.clear();
  less.policy_id = "policy@2";
  EXPECT_TRUE(onlyNarrows(before, less));
  EXPECT_FALSE(onlyNarrows(less, before));
  auto other = planOf("p", "b.test");
  EXPECT_FALSE(onlyNarrows(before, other));
  auto slower = before;
  slower.requests_per_minute = 10;
  EXPECT_TRUE(onlyNarrows(before, slower));
  EXPECT_FALSE(onlyNarrows(slower, before));
  auto tier = before;
  tier.tier = "full";
  EXPECT_FALSE(onlyNarrows(before, tier));
}

}  // namespace
}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
// Runs and sessions with a network, over a Network without cloister-egress.
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "orchestrator/runs/fake_network.h"
#include "orchestrator/sessions/session_fixture.h"
#include "store/rows/agents.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kWeb =
    "version: 2\n"
    "rules:\n"
    "  - {name: web, why: for tests, effect: allow, tier: Auto, runtime: process,\n"
    "     network: ['a.test:443', 'b.test:443']}\n";
constexpr std::string_view kLessWeb =
    "version: 2\n"
    "rules:\n"
    "  - {name: web, why: for tests, effect: allow, tier: Auto, runtime: process,\n"
    "     network: ['b.test:443']}\n";

class RunNetworkTest : public SessionsTest {
 protected:
  RunNetworkTest() {
    setPolicy(kWeb);
    network_ = &doors_;
    offer_.runtimes = {"process", "gvisor"};
  }
  ~RunNetworkTest() override { close(); }

  void setPolicy(std::string_view document) {
    auto parsed = policy::parsePolicy(std::string(document), "test", model::defaultBounds().max);
    ASSERT_TRUE(parsed) << parsed.error().message;
    policy_.set(*std::move(parsed));
  }
  static model::RunRequest withNetwork(std::vector<std::string> argv) {
    model::RunRequest made = request(std::move(argv));
    made.network.tier = "restricted";
    return made;
  }
  model::Execution runs(model::RunRequest made) {
    const auto accepted = await(service_->run(principal(), std::move(made), ""));
    EXPECT_TRUE(accepted) << accepted.error().message;
    return accepted ? ServiceTest::ended(accepted->id) : model::Execution{};
  }
  Asked askedNetwork() {
    Asked made = asked();
    made.settings.network.tier = "restricted";
    return made;
  }
  // Policy's answer about a door now.
  std::optional<model::NetworkPlan> again(const std::string& permit) {
    return await(doors_.opened.at(permit).again());
  }
  void waitClosed(size_t count) {
    runUntil([&] { return doors_.closed.size() >= count; });
  }

  FakeNetwork doors_;
};

TEST_F(RunNetworkTest, OpensADoorBeforeTheSandboxAndClosesItAfterwards) {
  open();
  const auto execution = runs(withNetwork({"echo", "x"}));
  EXPECT_EQ(execution.status, Status::kCompleted);
  ASSERT_EQ(doors_.order.size(), 1U);
  const auto& door = doors_.opened.begin()->second;
  EXPECT_EQ(door.first.permit, execution.provenance.permit_id);
  EXPECT_EQ(door.first.generation, 1U);
  EXPECT_EQ(door.first.tier, "restricted");
  EXPECT_EQ(door.first.rules.size(), 2U);
  EXPECT_EQ(door.owner.execution_id, execution.id);
  EXPECT_EQ(door.owner.principal.tenant, "acme");
  waitClosed(1);
  EXPECT_EQ(doors_.closed, doors_.order);
}

TEST_F(RunNetworkTest, RecordsTheDigestOfTheFirstPlan) {
  open();
  const auto execution = runs(withNetwork({"echo", "x"}));
  const auto details = detailsOf(execution.id, "execution.started");
  const std::string digest =
      base::sha256Hex(model::encodePlan(doors_.opened.begin()->second.first));
  ASSERT_TRUE(details.contains("network_plan_sha256"));
  EXPECT_EQ(details.at("network_plan_sha256").as_string(), digest);
}

TEST_F(RunNetworkTest, AQueuedRunRecordsTheDigestToo) {
  control_config_.concurrent = 1;
  open();
  const std::string first = accepted({"hold"});
  const auto second = await(service_->run(principal(), withNetwork({"echo", "x"}), ""));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->status, Status::kQueued);
  fake_->release();
  ServiceTest::ended(second->id);
  ASSERT_EQ(doors_.order.size(), 1U);
  EXPECT_EQ(detailsOf(second->id, "execution.started").at("network_plan_sha256").as_string(),
            base::sha256Hex(model::encodePlan(doors_.opened.begin()->second.first)));
  EXPECT_THAT(auditOf(second->id), ::testing::Not(Contains("network.planned")));
}

TEST_F(RunNetworkTest, ADryRunShowsThePlan) {
  open();
  const auto plan = await(service_->plan(principal(), withNetwork({"echo", "x"})));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->at("network").at("rules").as_array().size(), 2U);
  const auto without = await(service_->plan(principal(), request({"echo", "x"})));
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->contains("network"));
  EXPECT_TRUE(doors_.order.empty());
}

TEST_F(RunNetworkTest, ARunWithoutANetworkHasNoDoor) {
  open();
  const auto execution = runs(request({"echo", "x"}));
  EXPECT_EQ(execution.status, Status::kCompleted);
  EXPECT_TRUE(doors_.order.empty());
  EXPECT_EQ(doors_.uses, 0);
  EXPECT_EQ(execution.network, model::NetworkUse{});
  EXPECT_FALSE(detailsOf(execution.id, "execution.started").contains("network_plan_sha256"));
}

TEST_F(RunNetworkTest, FailsRetryablyWithoutCloisterEgress) {
  doors_.refusal = Error{Code::kInternal, "cloister-egress is not connected", ""};
  open();
  const auto execution = runs(withNetwork({"echo", "x"}));
  EXPECT_EQ(execution.status, Status::kFailed);
  ASSERT_TRUE(execution.error);
  EXPECT_EQ(execution.error->type, "SANDBOX_STARTUP_FAILED");
  EXPECT_TRUE(execution.error->retryable);
  EXPECT_THAT(execution.error->message, HasSubstr("cloister-egress"));
  EXPECT_TRUE(fake_->provisioned().empty()) << "no sandbox is made";
  EXPECT_EQ(runs(request({"echo", "x"})).status, Status::kCompleted) << "others are not affected";
}

TEST_F(RunNetworkTest, NoProgramStartsBeforeItsPlanIsInForce) {
  doors_.late_refusal = Error{Code::kInternal, "cloister-egress refused the plan", ""};
  open();
  const auto execution = runs(withNetwork({"echo", "x"}));
  EXPECT_EQ(execution.status, Status::kFailed);
  ASSERT_TRUE(execution.error);
  EXPECT_EQ(execution.error->type, "SANDBOX_STARTUP_FAILED");
  EXPECT_THAT(execution.error->message, HasSubstr("refused the plan"));
  EXPECT_EQ(fake_->provisioned().size(), 1U) << "its sandbox was made meanwhile";
  EXPECT_EQ(stored(execution.id).out.total, 0U);
  waitClosed(1);
  doors_.late_refusal.reset();
  EXPECT_EQ(runs(withNetwork({"echo", "x"})).status, Status::kCompleted);
  EXPECT_EQ(doors_.in_force.size(), 1U);
}

TEST_F(RunNetworkTest, RecordsTheUse) {
  doors_.used.connections = 2;
  doors_.used.bytes_in = 70;
  doors_.used.denied.emplace_back().host = "evil.test";
  doors_.used.denied.back().count = 1;
  open();
  const auto execution = runs(withNetwork({"echo", "x"}));
  EXPECT_EQ(execution.network, doors_.used);
  EXPECT_EQ(stored(execution.id).network, doors_.used);
}

TEST_F(RunNetworkTest, SaysWhereTheUseIsNotKnown) {
  doors_.use_refusal = Error{Code::kUnavailable, "it is gone", ""};
  open();
  const auto execution = runs(withNetwork({"echo", "x"}));
  EXPECT_EQ(execution.status, Status::kCompleted);
  ASSERT_TRUE(execution.network.hint);
  EXPECT_THAT(*execution.network.hint, HasSubstr("not known: it is gone"));
}

TEST_F(RunNetworkTest, HintsWhereAProgramLookedForANetwork) {
  open();
  const auto looked = runs(request({"exit", "1", "curl: (6) Could not resolve host: a.test"}));
  ASSERT_TRUE(looked.network.hint);
  EXPECT_THAT(*looked.network.hint, HasSubstr("--allow"));
  EXPECT_EQ(stored(looked.id).network.hint, looked.network.hint);
  EXPECT_FALSE(runs(request({"exit", "1", "no such file"})).network.hint);
  EXPECT_FALSE(
      runs(withNetwork({"exit", "1", "curl: (6) Could not resolve host: a.test"})).network.hint)
      << "it has a network; the refusal is in denied";
}

TEST_F(RunNetworkTest, AnotherPolicyNarrowsTheDoor) {
  open();
  const auto run = await(service_->run(principal(), withNetwork({"hold"}), ""));
  ASSERT_TRUE(run);
  runUntil([&] { return fake_->provisioned().size() == 1; });
  const std::string permit = doors_.order.at(0);
  const auto same = again(permit);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->rules, doors_.opened.at(permit).first.rules);
  setPolicy(kLessWeb);
  const auto less = again(permit);
  ASSERT_TRUE(less);
  ASSERT_EQ(less->rules.size(), 1U);
  EXPECT_EQ(less->rules[0].entry.name, "b.test");
  policy_.set(policy::brokenPolicy("broken", "for tests"));
  EXPECT_FALSE(again(permit)) << "a broken policy denies everything";
  fake_->release();
  ServiceTest::ended(run->id);
}

TEST_F(RunNetworkTest, ProgramsOfASessionShareItsDoor) {
  open();
  const std::string id = created(askedNetwork());
  ASSERT_EQ(doors_.order.size(), 1U);
  const auto& door = doors_.opened.begin()->second;
  EXPECT_EQ(door.owner.session_id, id);
  EXPECT_EQ(door.owner.execution_id, "");
  EXPECT_EQ(detailsOf(id, "session.started").at("network_plan_sha256").as_string(),
            base::sha256Hex(model::encodePlan(door.first)));
  doors_.used.connections = 3;
  auto wanted = program({"hold"});
  wanted.run.network.tier = "restricted";
  const auto running = await(sessions_->exec(principal(), id, wanted, ""));
  ASSERT_TRUE(running) << running.error().message;
  runUntil([&] { return doors_.uses > 0; });
  doors_.used.connections = 5;
  fake_->release();
  const auto execution = ServiceTest::ended(running->id);
  EXPECT_EQ(execution.network.connections, 2U) << "between its start and its end";
  EXPECT_EQ(doors_.order.size(), 1U);
  EXPECT_TRUE(doors_.closed.empty());
  ASSERT_TRUE(again(doors_.order[0]));
  ASSERT_TRUE(end(id));
  EXPECT_EQ(doors_.closed, doors_.order);
}

TEST_F(RunNetworkTest, ASessionWhosePlanIsRefusedHasNoSandbox) {
  doors_.late_refusal = Error{Code::kInternal, "cloister-egress refused the plan", ""};
  open();
  const auto made = create(askedNetwork());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("refused the plan"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(RunNetworkTest, ASessionFailsWithoutCloisterEgress) {
  doors_.refusal = Error{Code::kInternal, "cloister-egress is not connected", ""};
  open();
  const auto made = create(askedNetwork());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_THAT(made.error().message, HasSubstr("cloister-egress"));
  EXPECT_TRUE(create(asked())) << "others are not affected";
}

TEST_F(RunNetworkTest, AMovedSessionHasAnotherDoor) {
  setPolicy(
      "version: 2\nrules:\n  - {name: web, why: for tests, effect: allow, tier: Auto,\n"
      "     network: ['a.test:443']}\n");
  open();
  const std::string id = created(askedNetwork());
  const auto moved = await(
      sessions_->move(principal(), id, {.runtime = "gvisor", .tier = "", .end_programs = false}));
  ASSERT_TRUE(moved) << moved.error().message;
  ASSERT_EQ(doors_.order.size(), 2U);
  EXPECT_EQ(doors_.order[1], moved->provenance.permit_id);
  waitClosed(1);
  EXPECT_EQ(doors_.closed[0], doors_.order[0]);
  ASSERT_TRUE(end(id));
  EXPECT_EQ(doors_.closed, doors_.order);
}

TEST_F(RunNetworkTest, ASandboxThatIsNotMadeLeavesNoDoor) {
  open();
  fake_->failProvision(Error{Code::kInternal, "no sandbox", ""});
  EXPECT_EQ(runs(withNetwork({"echo", "x"})).status, Status::kFailed);
  EXPECT_FALSE(create(askedNetwork()));
  waitClosed(2);
  EXPECT_THAT(doors_.closed, ::testing::UnorderedElementsAreArray(doors_.order));
}

// An agent with a sandbox of its own.
class AgentNetworkTest : public RunNetworkTest {
 protected:
  AgentNetworkTest()
      : levels_(policy::parseLevels("version: 1\n"
                                    "sandbox_levels:\n"
                                    "  open:\n"
                                    "    description: for tests\n"
                                    "    why: a test\n"
                                    "    permissions:\n"
                                    "      allowed_commands: [{pattern: '*', why: a test}]\n"
                                    "      allowed_file_operations: [read, write, create]\n"
                                    "      network_access: allowed\n"
                                    "    resource_limits: {max_network_requests_per_minute: 30}\n",
                                    "test")
                    .value()) {}
  AgentGuard* guard() override {
    guard_ = std::make_unique<AgentGuard>(*store_, levels_, languages_, "");
    return guard_.get();
  }
  // The agent's sandbox, with these operations revoked.
  void give(std::vector<std::string> revoked) {
    model::AgentSandbox sandbox;
    sandbox.tenant = "acme";
    sandbox.agent = "agent";
    sandbox.level = "open";
    sandbox.revoked_operations = std::move(revoked);
    sandbox.created_at = 1;
    std::promise<bool> done;
    store_->write(
        store::writing(store::putAgent, store::Scope::allTenants(), sandbox, version_++, 10,
                       {.action = "agent.updated",
                        .subject = "agent:acme/agent",
                        .principal = principal(),
                        .details = {}}),
        [&](const Result<model::AgentSandbox>& stored) { done.set_value(stored.has_value()); });
    ASSERT_TRUE(done.get_future().get());
  }

  policy::Levels levels_;
  std::unique_ptr<AgentGuard> guard_;
  uint64_t version_ = 0;
};

TEST_F(AgentNetworkTest, ARevokedPermissionShutsTheDoor) {
  open();
  give({});
  const auto run = await(service_->run(principal(), withNetwork({"hold"}), ""));
  ASSERT_TRUE(run);
  runUntil([&] { return fake_->provisioned().size() == 1; });
  const std::string permit = doors_.order.at(0);
  EXPECT_EQ(doors_.opened.at(permit).first.requests_per_minute, 30U);
  EXPECT_TRUE(again(permit));
  give({"network"});
  runUntil([&] { return !again(permit); });  // what is remembered ends soon
  fake_->release();
  ServiceTest::ended(run->id);
}

}  // namespace
}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
// Runs and sessions of tenants that want more than the node's capacity.
#include <gmock/gmock.h>

#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class FairnessTest : public SessionsTest {
 protected:
  FairnessTest() { control_config_.fairness.kept_percent = 12; }

  // A request of a tenant with `memory_mb` of memory.
  std::string asks(const std::string& tenant, std::vector<std::string> argv,
                   uint64_t memory_mb = 256) {
    model::RunRequest made = request(std::move(argv));
    made.limits.memory_bytes = memory_mb * kMiB;
    const auto run = await(service_->run(principal(tenant), made, ""));
    EXPECT_TRUE(run) << run.error().message;
    return run ? run->id : "";
  }
  bool waits(const std::string& id) { return stored(id).status == Status::kQueued; }
  void runs(size_t count) {
    runUntil([&] { return fake_->provisioned().size() == count; });
    settle();
  }
};

TEST_F(FairnessTest, ATenantThatComesFindsAPlace) {
  open();
  std::vector<std::string> flood;
  for (int i = 0; i < 6; i++)
    flood.push_back(asks("a", {"hold"}));
  runs(3);
  EXPECT_TRUE(waits(flood[3])) << "of four places";
  EXPECT_EQ(ServiceTest::ended(asks("b", {"echo", "x"}), "b").status, Status::kCompleted);
  EXPECT_TRUE(waits(flood[3]));
  fake_->release();
  for (const std::string& id : flood)
    EXPECT_EQ(ServiceTest::ended(id, "a").status, Status::kCompleted);
}

TEST_F(FairnessTest, OrMemory) {
  offer_.memory_bytes = 2560 * kMiB;  // 80 % are for runs: 2048, of which 256 are kept
  open();
  asks("a", {"hold"}, 1600);
  const std::string more = asks("a", {"echo", "x"});
  runs(1);
  ASSERT_TRUE(waits(more));
  EXPECT_EQ(ServiceTest::ended(asks("b", {"echo", "x"}), "b").status, Status::kCompleted);
  EXPECT_TRUE(waits(more));
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(more, "a").status, Status::kCompleted);
}

TEST_F(FairnessTest, OthersPassWhatDoesNotFit) {
  config_.skip = std::chrono::hours(1);
  offer_.memory_bytes = 1300 * kMiB;
  open();
  asks("a", {"hold"});
  const std::string large = asks("b", {"echo", "x"}, 768);
  EXPECT_EQ(ServiceTest::ended(asks("a", {"echo", "x"}), "a").status, Status::kCompleted);
  EXPECT_TRUE(waits(large));
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(large, "b").status, Status::kCompleted);
}

TEST_F(FairnessTest, NotForEverButWhoUsesLittleDoes) {
  config_.skip = Millis(0);
  offer_.memory_bytes = 1300 * kMiB;  // 1040 for runs, of which 256 are kept
  open();
  const std::string first = asks("a", {"hold"}, 512);
  const std::string large = asks("b", {"echo", "x"}, 768);
  const std::string small = asks("a", {"echo", "x"});
  settle();
  EXPECT_TRUE(waits(small)) << "there is room for it";
  const std::string little = asks("c", {"echo", "x"});
  EXPECT_EQ(ServiceTest::ended(little, "c").status, Status::kCompleted);
  EXPECT_TRUE(waits(small));
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(small, "a").status, Status::kCompleted);
  EXPECT_THAT(fake_->provisioned(), ElementsAre(first, little, large, small));
}

TEST_F(FairnessTest, SmallOnesDoNotKeepItWaiting) {
  config_.skip = Millis(1);
  offer_.memory_bytes = 1300 * kMiB;
  open();
  const std::string small = asks("a", {"hold"}, 32);
  const std::string large = asks("b", {"echo", "x"}, 768);
  EXPECT_EQ(ServiceTest::ended(large, "b").status, Status::kCompleted);
  EXPECT_EQ(stored(small).status, Status::kRunning);
}

TEST_F(FairnessTest, NobodyWaitsForOneThatRunsAlone) {
  config_.skip = Millis(0);
  offer_.memory_bytes = 1300 * kMiB;
  open();
  asks("a", {"hold"});
  const std::string alone = asks("b", {"echo", "x"}, 900);
  EXPECT_EQ(ServiceTest::ended(asks("a", {"echo", "x"}), "a").status, Status::kCompleted);
  EXPECT_TRUE(waits(alone));
  fake_->release();
  EXPECT_EQ(ServiceTest::ended(alone, "b").status, Status::kCompleted);
}

TEST_F(FairnessTest, WhatDoesNotFitMayBeCancelled) {
  config_.skip = Millis(0);
  offer_.memory_bytes = 1300 * kMiB;
  open();
  asks("a", {"hold"}, 512);
  const std::string large = asks("b", {"echo", "x"}, 768);
  const std::string small = asks("a", {"echo", "x"});
  settle();
  EXPECT_TRUE(waits(small));
  ASSERT_TRUE(await(service_->cancel(principal("b"), large)));
  EXPECT_EQ(ServiceTest::ended(small, "a").status, Status::kCompleted);
}

TEST_F(FairnessTest, ASessionOfATenantThatComes) {
  offer_.max_sandboxes = 8;  // six for sessions
  open();
  for (int i = 0; i < 5; i++)
    created(asked(), "a");
  const auto full = create(asked(), "a");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kQuota);
  EXPECT_THAT(full.error().message, HasSubstr("6 sessions may be there, and those that are left"));
  EXPECT_TRUE(create(asked(), "b"));
}

TEST_F(FairnessTest, RunsAndSessionsOfOneTenantLeaveAPlace) {
  offer_.max_sandboxes = 8;
  control_config_.fairness.kept_percent = 12;
  open();
  for (int i = 0; i < 6; i++)
    asks("a", {"hold"});
  created(asked(), "a");
  const auto waiting = start(sessions_->create(principal("a"), asked(), ""));
  settle();
  EXPECT_FALSE(waiting->done());
  EXPECT_EQ(ServiceTest::ended(asks("b", {"echo", "x"}), "b").status, Status::kCompleted);
  EXPECT_FALSE(waiting->done());
  fake_->release();
  EXPECT_TRUE(finish(waiting));
}

TEST_F(FairnessTest, AndItsMemory) {
  offer_.max_sandboxes = 100;
  offer_.memory_bytes = 4096 * kMiB;  // 60 % for sessions: 2457 MiB
  open();
  Asked large = asked();
  large.settings.limits.memory_bytes = 2048 * kMiB;
  created(large, "a");
  EXPECT_FALSE(create(asked(), "a"));
  EXPECT_TRUE(create(asked(), "b"));
}

}  // namespace
}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
// Changes of a live session's record, and pauses.
#include <gmock/gmock.h>

#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

using model::SessionStatus;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SessionsTest, AnAmendmentChangesTheRecordAndLeavesTheRest) {
  open();
  const std::string id = created();
  const base::json::object metadata{{"team", "red"}};
  const auto amended = await(sessions_->amend(principal(), id, {.metadata = metadata}));
  ASSERT_TRUE(amended) << amended.error().message;
  EXPECT_EQ(amended->metadata, metadata);
  EXPECT_EQ(storedSession(id).metadata, metadata);
  EXPECT_EQ(storedSession(id).ttl, shown(id).ttl);
  EXPECT_THAT(auditOf(id), ElementsAre("session.created", "session.started", "session.amended"));
}

TEST_F(SessionsTest, ASandboxWithoutANetworkGetsNoneLater) {
  open();
  const std::string id = created();
  model::NetworkRequest network;
  network.tier = "restricted";
  const auto amended = await(sessions_->amend(principal(), id, {.network = network}));
  ASSERT_FALSE(amended);
  EXPECT_EQ(amended.error().code, Code::kUnsupported);
  EXPECT_EQ(storedSession(id).network.tier, "none");
}

TEST_F(SessionsTest, AStrangerAmendsAndPausesNothing) {
  open();
  const std::string id = created();
  const auto amended = await(sessions_->amend(principal("other"), id, {}));
  ASSERT_FALSE(amended);
  EXPECT_EQ(amended.error().code, Code::kNotFound);
  const auto paused = await(sessions_->pause(principal("other"), id));
  ASSERT_FALSE(paused);
  EXPECT_EQ(paused.error().code, Code::kNotFound);
  EXPECT_EQ(sessions_->pausedSince(id), 0);
}

TEST_F(SessionsTest, APausedSessionAdmitsNothingUntilItIsResumed) {
  open();
  const std::string id = created();
  ASSERT_TRUE(await(sessions_->pause(principal(), id)));
  EXPECT_GT(sessions_->pausedSince(id), 0);
  const auto refused = exec(id, {"exit", "0"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("paused"));
  EXPECT_FALSE(await(sessions_->pause(principal(), id)));
  ASSERT_TRUE(await(sessions_->resume(principal(), id)));
  EXPECT_EQ(sessions_->pausedSince(id), 0);
  EXPECT_EQ(ran(id, {"exit", "0"}).status, model::Status::kCompleted);
  EXPECT_FALSE(await(sessions_->resume(principal(), id)));
  EXPECT_THAT(auditOf(id), Contains("session.paused"));
  EXPECT_THAT(auditOf(id), Contains("session.unpaused"));
}

TEST_F(SessionsTest, APausedSessionEnds) {
  open();
  const std::string id = created();
  ASSERT_TRUE(await(sessions_->pause(principal(), id)));
  ASSERT_TRUE(end(id));
  EXPECT_EQ(storedSession(id).status, SessionStatus::kEnded);
  EXPECT_EQ(fake_->live(), 0U);
}

}  // namespace
}  // namespace cloister::orchestrator

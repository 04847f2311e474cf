// SPDX-License-Identifier: Apache-2.0
// The times of a record are in order though the wall clock is set back while the record lives.
#include <gmock/gmock.h>

#include "base/record_clock.h"
#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

constexpr std::chrono::hours kHour{1};

struct RecordTimesTest : SessionsTest {
  ~RecordTimesTest() override { base::setWallOffset(Micros(0)); }
  static void setClockBack() { base::setWallOffset(-kHour); }

  // In order, and as far apart as the program ran.
  static void expectInOrder(const model::Execution& e) {
    EXPECT_GT(e.created_at, 0);
    if (e.started_at != 0) EXPECT_LE(e.created_at, e.started_at);
    EXPECT_LE(std::max(e.created_at, e.started_at), e.finished_at);
    EXPECT_LT(e.finished_at - e.created_at, Micros(std::chrono::minutes(10)).count());
  }
};

TEST_F(RecordTimesTest, OfARun) {
  open();
  const std::string id = accepted({"hold"});
  runUntil([&] { return stored(id).status == model::Status::kRunning; });
  setClockBack();
  fake_->release();
  expectInOrder(ended(id));
  expectInOrder(stored(id));
}

TEST_F(RecordTimesTest, OfARunThatWaits) {
  open(false);
  const std::string id = accepted({"echo", "hi"});
  setClockBack();
  connect();
  expectInOrder(ended(id));
}

TEST_F(RecordTimesTest, OfARunThatIsCancelledWhileItWaits) {
  open(false);
  const std::string id = accepted({"echo", "hi"});
  setClockBack();
  ASSERT_TRUE(await(service_->cancel(principal(), id)));
  expectInOrder(ended(id));
}

TEST_F(RecordTimesTest, OfWhatARestartEnds) {
  open();
  const std::string run = accepted({"hold"});
  const std::string session = created();
  runUntil([&] { return stored(run).status == model::Status::kRunning; });
  close();
  setClockBack();
  open(false);
  expectInOrder(stored(run));
  const model::Session left = storedSession(session);
  EXPECT_GE(left.ended_at, left.created_at);
}

TEST_F(RecordTimesTest, OfARunThatIsQueuedAgain) {
  open(false);
  const std::string id = accepted({"echo", "hi"});
  close();
  setClockBack();
  open();
  expectInOrder(ended(id));
}

TEST_F(RecordTimesTest, OfASession) {
  open();
  const std::string id = created(asked(Millis(600'000), Millis(600'000)));
  setClockBack();
  const model::Session before = shown(id);
  EXPECT_GE(before.expires_at, before.created_at + Micros(std::chrono::minutes(9)).count());
  ran(id, {"echo", "hi"});
  const model::Session used = shown(id);
  EXPECT_GE(used.last_used_at, used.created_at);
  const auto renewed = renew(id, Millis(1'200'000), Millis(1'200'000));
  ASSERT_TRUE(renewed);
  EXPECT_GT(renewed->expires_at, used.expires_at);
  ASSERT_TRUE(end(id));
  const model::Session ended = storedSession(id);
  EXPECT_GE(ended.ended_at, ended.last_used_at);
}

}  // namespace
}  // namespace cloister::orchestrator

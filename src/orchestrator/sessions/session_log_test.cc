// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/session_log.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/spawn.h"

namespace cloister::orchestrator {
namespace {

using model::SessionStatus;

class SessionLogTest : public testing::Test {
 protected:
  static model::Session session(SessionStatus status) {
    model::Session made;
    made.id = "ses_1";
    made.status = status;
    return made;
  }
  static model::Execution execution(const std::string& id, model::Status status) {
    model::Execution made;
    made.id = id;
    made.status = status;
    return made;
  }

  boost::asio::io_context io_;
  SessionLog log_{io_.get_executor()};
};

TEST_F(SessionLogTest, GivesWhatHappenedInOrder) {
  EXPECT_FALSE(log_.after(0));
  log_.publish(session(SessionStatus::kCreating));
  log_.publish(execution("exec_1", model::Status::kRunning));
  log_.publish(session(SessionStatus::kEnded));
  EXPECT_EQ(log_.after(0)->session->status, SessionStatus::kCreating);
  EXPECT_EQ(log_.after(1)->execution, "exec_1");
  EXPECT_EQ(log_.after(1)->seq, 2U);
  EXPECT_EQ(log_.after(2)->session->status, SessionStatus::kEnded);
  EXPECT_FALSE(log_.after(3));
  EXPECT_TRUE(log_.closed());
}

TEST_F(SessionLogTest, NothingFollowsTheEnd) {
  log_.publish(session(SessionStatus::kEnded));
  log_.publish(execution("exec_1", model::Status::kFailed));
  EXPECT_FALSE(log_.after(1));
}

TEST_F(SessionLogTest, BeginsWithThePresentWhereThePastIsGone) {
  log_.publish(session(SessionStatus::kRunning));
  for (size_t i = 0; i < SessionLog::kKept + 10; i++)
    log_.publish(execution("exec_" + std::to_string(i), model::Status::kRunning));
  const auto first = log_.after(0);
  ASSERT_TRUE(first->session);
  EXPECT_EQ(first->session->status, SessionStatus::kRunning);
  uint64_t seen = first->seq;
  for (size_t i = 10; i < SessionLog::kKept + 10; i++) {
    const auto event = log_.after(seen);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->execution, "exec_" + std::to_string(i));
    seen = event->seq;
  }
  EXPECT_FALSE(log_.after(seen));
}

TEST_F(SessionLogTest, KeepsFewStatesOfASessionWithMuchAboutIt) {
  model::Session large = session(SessionStatus::kRunning);
  large.metadata["notes"] = std::string(SessionLog::kKeptBytes / 3, 'x');
  large.env["LONG"] = std::string(SessionLog::kKeptBytes / 3, 'x');
  for (int i = 0; i < 10; i++)
    log_.publish(large);
  EXPECT_EQ(log_.after(0)->seq, 9U) << "the present, before the one that is kept";
  EXPECT_EQ(log_.after(9)->seq, 10U);
  EXPECT_FALSE(log_.after(10));
  log_.publish(session(SessionStatus::kEnded));
  EXPECT_EQ(log_.after(10)->seq, 11U);
}

TEST_F(SessionLogTest, TellsAReaderOfAnotherLogTheEnd) {
  const auto log = SessionLog::ofRecord(io_.get_executor(), session(SessionStatus::kEnded));
  const auto event = log->after(1234);
  ASSERT_TRUE(event && event->session);
  EXPECT_EQ(event->session->status, SessionStatus::kEnded);
  EXPECT_EQ(event->seq, 1U);
}

TEST_F(SessionLogTest, WakesItsReaders) {
  int woken = 0;
  const auto wait = [&]() -> boost::asio::awaitable<void> {
    co_await log_.wait(0, std::chrono::hours(1));
    woken++;
  };
  async::spawn(io_.get_executor(), wait());
  async::spawn(io_.get_executor(), wait());
  io_.poll();
  EXPECT_EQ(woken, 0);
  log_.publish(session(SessionStatus::kRunning));
  io_.poll();
  EXPECT_EQ(woken, 2);
}

}  // namespace
}  // namespace cloister::orchestrator

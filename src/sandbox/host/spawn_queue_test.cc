// SPDX-License-Identifier: Apache-2.0
// Requests and answers in order, and a process without an answer; the test plays the process.
#include "sandbox/host/spawn_queue.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/clock.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SpawnQueueTest : public testing::Test {
 protected:
  static constexpr Millis kShort{100};
  static constexpr Millis kLong{60'000};

  void SetUp() override { open(kLong); }
  void TearDown() override { queue_.reset(); }

  // With a process that is stopped, and so ends by SIGKILL alone. The other end of its socket is
  // here: its end is no end of file.
  void open(Millis patience) {
    auto pair = linux::socketPair(SOCK_SEQPACKET);
    ASSERT_TRUE(pair) << pair.error().message;
    theirs_ = std::move(pair->second);
    ASSERT_EQ(::fcntl(pair->first.get(), F_SETFL, O_NONBLOCK), 0);
    auto child = linux::cloneProcess(0);
    ASSERT_TRUE(child) << child.error().message;
    if (child->pid == 0) {
      std::ignore = linux::dieWithParent();
      std::ignore = linux::closeFrom(0);
      for (;;)
        ::raise(SIGSTOP);
    }
    child_ = child->pid;
    auto spawner = std::make_shared<Spawner>(std::move(pair->first), std::move(child->pidfd));
    queue_ = std::make_shared<SpawnQueue>(io_.get_executor(), std::move(spawner), patience);
  }

  // Sends a request. errors_ collects the results in the order of arrival.
  void ask(int number) {
    async::spawn(io_.get_executor(), [](SpawnQueueTest& test, int number) -> Task<void> {
      auto answer = co_await test.queue_->spawn({}, {});
      test.order_.push_back(number);
      test.errors_.push_back(answer ? "" : answer.error().message);
    }(*this, number));
  }

  void answer(std::string_view text) const {
    const int fd = theirs_.get();
    const std::span<const int> fds(&fd, text == kDone ? 1 : 0);
    ASSERT_TRUE(linux::sendMessage(theirs_.get(), text, fds));
  }

  void runUntilAnswered(size_t count) {
    io_.restart();
    while (order_.size() < count && io_.run_one() > 0) {
    }
    ASSERT_EQ(order_.size(), count);
  }

  Task<Result<>> readyAfter(Millis wait) {
    boost::asio::steady_timer pause(io_, wait);
    pause.async_wait([this](const boost::system::error_code&) { answer(kDone); });
    co_return co_await queue_->ready();
  }

  // Whether the process was killed, checked after its end.
  bool killed() {
    queue_.reset();  // reaps the process
    return ::kill(child_, 0) != 0 && errno == ESRCH;
  }

  boost::asio::io_context io_{1};
  Fd theirs_;
  pid_t child_ = -1;
  std::shared_ptr<SpawnQueue> queue_;
  std::vector<int> order_;
  std::vector<std::string> errors_;
};

TEST_F(SpawnQueueTest, AnswersComeInTheOrderOfTheRequests) {
  for (int i = 0; i < 3; ++i)
    ask(i);
  answer(kDone);
  answer("no room");
  answer(kDone);
  runUntilAnswered(3);
  EXPECT_THAT(order_, ElementsAre(0, 1, 2));
  EXPECT_THAT(errors_, ElementsAre("", HasSubstr("no room"), ""));
  EXPECT_TRUE(queue_->spawner()->alive()) << "it refused, and lives";
}

TEST_F(SpawnQueueTest, WhoGivesNoAnswerIsKilled) {
  open(kShort);
  ask(0);
  runUntilAnswered(1);
  EXPECT_THAT(errors_, ElementsAre(HasSubstr("did not answer")));
  EXPECT_FALSE(queue_->spawner()->alive());
  ask(1);
  runUntilAnswered(2);
  EXPECT_THAT(errors_[1], HasSubstr("died")) << "nor is it asked again";
  EXPECT_TRUE(killed());
}

TEST_F(SpawnQueueTest, WhoWaitsBehindItHearsOfItAtOnce) {
  open(kShort);
  constexpr int kMany = 200;  // more than are on their way at once
  const auto begun = base::monotonicNow();
  for (int i = 0; i < kMany; ++i)
    ask(i);
  runUntilAnswered(kMany);
  EXPECT_LT(base::monotonicNow() - begun, kShort * kMany / 4) << "not one patience for each";
  for (int i = 1; i < kMany; ++i)
    EXPECT_THAT(errors_[static_cast<size_t>(i)], HasSubstr("died"));
}

TEST_F(SpawnQueueTest, ThePatienceIsForEachAnswer) {
  open(Millis{1000});
  constexpr int kAnswers = 4;
  for (int i = 0; i < kAnswers; ++i)
    ask(i);
  boost::asio::steady_timer slow(io_);
  for (size_t i = 0; i < kAnswers; ++i) {  // the total exceeds the patience
    slow.expires_after(Millis{400});
    slow.async_wait([&](const boost::system::error_code&) { answer(kDone); });
    runUntilAnswered(i + 1);
  }
  EXPECT_THAT(errors_, ElementsAre("", "", "", ""));
  EXPECT_TRUE(queue_->spawner()->alive());
}

TEST_F(SpawnQueueTest, AnAnswerThatIsThereIsTakenHoweverLate) {
  open(kShort);
  ask(0);
  answer(kDone);
  ::usleep(2 * 1000 * static_cast<useconds_t>(kShort.count()));  // as if this process had been
                                                                 // stopped
  runUntilAnswered(1);
  EXPECT_THAT(errors_, ElementsAre(""));
}

TEST_F(SpawnQueueTest, AnEndIsHeardOf) {
  ask(0);
  theirs_.reset();
  runUntilAnswered(1);
  EXPECT_THAT(errors_, ElementsAre(HasSubstr("died")));
  EXPECT_FALSE(queue_->spawner()->alive());
}

TEST_F(SpawnQueueTest, TheFirstWordIsWaitedFor) {
  EXPECT_TRUE(async::runTask(io_, readyAfter(Millis{20})));
  EXPECT_TRUE(queue_->spawner()->alive());
}

TEST_F(SpawnQueueTest, WhoNeverSaysThatItServesIsKilled) {
  open(kShort);
  const auto said = async::runTask(io_, queue_->ready());
  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("did not answer"));
  EXPECT_FALSE(queue_->spawner()->alive());
  EXPECT_TRUE(killed());
}

}  // namespace
}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
// The tests use a file in place of the kernel's list.
#include "sandbox/host/lock_watch.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <tuple>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/id.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

using std::chrono::milliseconds;

struct Holder : LockHolder {
  explicit Holder(pid_t first) : first_process(first) {}
  [[nodiscard]] pid_t firstProcess() const override { return first_process; }
  void endFor(const LocksOver& locks) override { over = locks; }

  pid_t first_process;
  std::optional<LocksOver> over;
};

class LockWatchTest : public testing::Test {
 protected:
  LockWatchTest() = default;
  ~LockWatchTest() override {
    std::filesystem::remove(locks_);
    std::filesystem::remove(room_);
  }
  LockWatchTest(const LockWatchTest&) = delete;
  LockWatchTest& operator=(const LockWatchTest&) = delete;

  void hold(pid_t pid, int count) {
    for (int i = 0; i < count; ++i)
      text_ += "1: POSIX  ADVISORY  WRITE " + std::to_string(pid) + " 08:01:99 " +
               std::to_string(i) + " EOF\n";
    ASSERT_TRUE(base::writeFileAtomic(locks_, text_, 0644));
  }
  // For some of its periods.
  void run(const std::vector<std::shared_ptr<Holder>>& holders, uint64_t most = 100) {
    const auto watch = std::make_shared<LockWatch>(
        io_.get_executor(),
        LockWatchConfig{.most = most, .period = milliseconds(2), .locks = locks_, .room = room_});
    for (const auto& each : holders)
      watch->watch(each);
    const auto others = boost::asio::make_work_guard(io_);  // as a node has
    io_.restart();
    io_.run_for(milliseconds(500));
  }

  std::string locks_ = "/tmp/cloister-test-" + base::randomHex(8);
  std::string room_ = "/tmp/cloister-test-" + base::randomHex(8);
  std::string text_;
  boost::asio::io_context io_;
};

TEST_F(LockWatchTest, EndsWhoHoldsTooMany) {
  hold(::getpid(), 101);
  const auto over = std::make_shared<Holder>(::getpid());
  const auto none = std::make_shared<Holder>(999'999'999);
  run({over, none});
  ASSERT_TRUE(over->over);
  EXPECT_EQ(over->over->held, 101U);
  EXPECT_EQ(over->over->most, 100U);
  EXPECT_FALSE(none->over);
}

TEST_F(LockWatchTest, CountsWhatDescends) {
  const auto child = linux::cloneProcess(0);
  ASSERT_TRUE(child);
  if (child->pid == 0) {
    for (;;)
      ::pause();
  }
  hold(child->pid, 101);
  const auto above = std::make_shared<Holder>(::getpid());
  run({above});
  EXPECT_TRUE(above->over);
  std::ignore = linux::signalPidfd(child->pidfd.get(), SIGKILL);
  std::ignore = linux::reapPidfd(child->pidfd.get());
}

TEST_F(LockWatchTest, LeavesTheOthers) {
  hold(::getpid(), 100);
  hold(1, 5000);
  const auto holder = std::make_shared<Holder>(::getpid());
  run({holder});
  EXPECT_FALSE(holder->over);
}

TEST_F(LockWatchTest, DoesNotReadWhatFitsTheBound) {
  hold(::getpid(), 101);
  ASSERT_TRUE(base::writeFileAtomic(room_, "100 N0=100\n", 0644));
  const auto holder = std::make_shared<Holder>(::getpid());
  run({holder});
  EXPECT_FALSE(holder->over);
  ASSERT_TRUE(base::writeFileAtomic(room_, "101 N0=101\n", 0644));
  run({holder});
  EXPECT_TRUE(holder->over);
}

TEST_F(LockWatchTest, RestsWithNobodyToWatch) {
  hold(::getpid(), 1);
  const auto watch = std::make_shared<LockWatch>(
      io_.get_executor(),
      LockWatchConfig{.most = 100, .period = milliseconds(2), .locks = locks_, .room = room_});
  watch->watch(std::make_shared<Holder>(::getpid()));  // ends at once
  io_.run_for(std::chrono::seconds(10));
  EXPECT_TRUE(io_.stopped());
}

TEST(RestAfter, GrowsWithTheReadingUpToABound) {
  const LockWatchConfig config{.period = milliseconds(1000), .longest_rest = milliseconds(5000)};
  EXPECT_EQ(restAfter(config, milliseconds(1)), milliseconds(1000));
  EXPECT_EQ(restAfter(config, milliseconds(100)), milliseconds(2000));
  EXPECT_EQ(restAfter(config, milliseconds(1500)), milliseconds(5000));
}

TEST(LocksEach, IsAShareOfWhatWasRead) {
  linux::FileLocks locks{.held = {}, .all = 50'000, .whole = true};
  EXPECT_EQ(locksEach(locks, 1024, 256), 1024U);
  locks = {.held = {}, .all = kMostRead, .whole = false};
  EXPECT_EQ(locksEach(locks, 1024, 1), 1024U);
  EXPECT_EQ(locksEach(locks, 1024, 32), 1024U);
  EXPECT_EQ(locksEach(locks, 1024, 256), 128U);
  EXPECT_EQ(locksEach(locks, 1024, 0), 1024U);
}

}  // namespace
}  // namespace cloister::runtime

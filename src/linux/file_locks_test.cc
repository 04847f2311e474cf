// SPDX-License-Identifier: Apache-2.0
#include "linux/file_locks.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "linux/proc_tree.h"

namespace cloister::linux {
namespace {

class FileLocksTest : public testing::Test {
 protected:
  FileLocksTest() = default;
  ~FileLocksTest() override { std::filesystem::remove(path_); }
  FileLocksTest(const FileLocksTest&) = delete;
  FileLocksTest& operator=(const FileLocksTest&) = delete;

  [[nodiscard]] FileLocks read(const std::string& text, size_t most = 1000) const {
    EXPECT_TRUE(base::writeFileAtomic(path_, text, 0644));
    const auto locks = readFileLocks(most, path_);
    EXPECT_TRUE(locks) << locks.error().message;
    return locks.value_or(FileLocks{});
  }

  std::string path_ = "/tmp/cloister-test-" + base::randomHex(8);
};

TEST_F(FileLocksTest, CountsThemByProcess) {
  const FileLocks locks = read(
      "1: POSIX  ADVISORY  WRITE 12 08:01:99 0 EOF\n"
      "1: -> POSIX  ADVISORY  READ 13 08:01:99 0 10\n"
      "2: FLOCK  ADVISORY  WRITE 12 00:19:7 0 EOF\n"
      "3: OFDLCK ADVISORY  READ -1 00:06:1 0 EOF\n"
      "4: LEASE  ACTIVE    READ 14 00:06:1 0 EOF\n"
      "what is this\n");
  EXPECT_EQ(locks.all, 5U);
  EXPECT_TRUE(locks.whole);
  EXPECT_EQ(locks.held, (std::unordered_map<pid_t, uint64_t>{{12, 2}, {13, 1}, {-1, 1}, {14, 1}}));
  EXPECT_EQ(read("").all, 0U);
}

// The list moves by as much as some process adds, and the next read(2) tells the same locks again.
TEST_F(FileLocksTest, CountsOneOnceThatIsToldAgain) {
  std::string once;
  for (int i = 0; i < 500; ++i)  // more than a single read(2) returns
    once += ": POSIX  ADVISORY  WRITE 12 08:01:99 " + std::to_string(i) + " EOF\n";
  std::string text;
  for (int place = 1; place <= 10; ++place)
    text += std::to_string(place) + once;
  const FileLocks locks = read(text, 10'000);
  EXPECT_EQ(locks.held, (std::unordered_map<pid_t, uint64_t>{{12, 500}}));
  EXPECT_EQ(locks.all, 5000U);
}

TEST_F(FileLocksTest, CountsEachOfSeveralThatReadTheSame) {
  const FileLocks locks = read(
      "1: FLOCK  ADVISORY  READ 12 08:01:99 0 EOF\n"
      "2: FLOCK  ADVISORY  READ 12 08:01:99 0 EOF\n"
      "3: FLOCK  ADVISORY  READ 12 08:01:99 0 EOF\n");
  EXPECT_EQ(locks.held.at(12), 3U);
}

TEST_F(FileLocksTest, ReadsOnlySoMany) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += "1: POSIX  ADVISORY  WRITE 12 08:01:99 " + std::to_string(i) + " EOF\n";
  const FileLocks some = read(text, 100);
  EXPECT_FALSE(some.whole);
  EXPECT_GE(some.all, 100U);
  EXPECT_LT(some.all, 1000U);
  EXPECT_EQ(read(text, 5001).all, 5000U);
}

TEST_F(FileLocksTest, TheKernelTellsOurs) {
  const Fd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  for (lock.l_start = 0; lock.l_start < 200; lock.l_start += 2)
    ASSERT_EQ(::fcntl(file.get(), F_SETLK, &lock), 0);
  // The kernel lists by position: a lock that another process gives up meanwhile hides the next
  // one.
  uint64_t held = 0;
  for (int reading = 0; reading < 100 && held != 100; ++reading) {
    const auto locks = readFileLocks(1'000'000);
    ASSERT_TRUE(locks) << locks.error().message;
    held = locks->held.at(::getpid());
  }
  EXPECT_EQ(held, 100U);
  if (const auto room = roomForFileLocks()) EXPECT_GE(*room, 100U);
}

TEST_F(FileLocksTest, WhatTheKernelDoesNotTell) {
  EXPECT_FALSE(readFileLocks(1, "/nonexistent"));
  EXPECT_FALSE(roomForFileLocks("/nonexistent"));
  EXPECT_EQ(parentOf(::getpid()), ::getppid());
  EXPECT_EQ(parentOf(999'999'999), -1);
}

}  // namespace
}  // namespace cloister::linux

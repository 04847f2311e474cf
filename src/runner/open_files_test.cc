// SPDX-License-Identifier: Apache-2.0
#include "runner/open_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include <gtest/gtest.h>

#include "runner/runner.h"

namespace cloister::runner {
namespace {

// A process in a session of its own, with `files` additional descriptors.
class Opener {
 public:
  explicit Opener(int files, bool waits = false) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setsid();
      for (int i = 0; i < files; ++i) {
        if (::open("/dev/null", O_RDONLY) < 0) ::_exit(1);
      }
      if (const pid_t child = waits ? ::fork() : -1; child == 0) ::_exit(0);
      if (waits) ::wait(nullptr);
      ::close(ready[1]);
      for (;;)
        ::pause();
    }
    ::close(ready[1]);
    char none = 0;
    const ssize_t end = ::read(ready[0], &none, 1);  // closed when all are open
    EXPECT_EQ(end, 0);
    ::close(ready[0]);
  }
  Opener(const Opener&) = delete;
  Opener& operator=(const Opener&) = delete;
  ~Opener() { end(); }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

Channel watched(pid_t pid) {
  Channel channel;
  channel.reset(1);
  channel.pid = pid;
  channel.begun = true;
  return channel;
}

TEST(OpenFiles, AreCountedWhileTheProcessLives) {
  Opener opener(300);
  const uint32_t listed = static_cast<uint32_t>(std::distance(
      std::filesystem::directory_iterator("/proc/" + std::to_string(opener.pid()) + "/fd"), {}));
  EXPECT_GE(listed, 300U);
  EXPECT_EQ(openFilesOf(opener.pid()), listed);
  EXPECT_GE(fileTableOf(opener.pid()), listed);
  const pid_t was = opener.pid();
  opener.end();
  EXPECT_EQ(openFilesOf(was), 0U);
  EXPECT_EQ(fileTableOf(was), 0U);
}

TEST(OpenFiles, OfASmallTableThereNeverWereMany) {
  const Opener opener(3);
  EXPECT_LT(fileTableOf(opener.pid()), 1024U);
}

TEST(OpenFiles, OfOneThatWaitedForAChildItsTableSaysNothing) {
  const Opener alone(300);
  EXPECT_EQ(tableIfAlone(alone.pid()), fileTableOf(alone.pid()));
  EXPECT_GE(tableIfAlone(alone.pid()), 300U);
  const Opener parent(3, true);
  EXPECT_EQ(tableIfAlone(parent.pid()), 0U) << "the child may have been at the limit";
}

TEST(OpenFiles, ATableThatCannotBeSeenOnceMayHaveBeenAny) {
  Channel channel = watched(1);
  channel.sawTable(64);
  channel.sawTable(256);
  EXPECT_EQ(channel.file_table, 256U);
  channel.sawTable(0);
  channel.sawTable(64);
  EXPECT_EQ(channel.file_table, UINT32_MAX);
}

TEST(OpenFiles, WhatProgramsSayIsFound) {
  EXPECT_TRUE(saysTooManyFiles("OSError: [Errno 24] Too many open files: 'x'\n"));
  EXPECT_TRUE(saysTooManyFiles("Error: EMFILE: too many open files, open 'x'\n"));
  EXPECT_FALSE(saysTooManyFiles("Too many arguments\n"));
}

TEST(OpenFiles, TheEndOfAProgramSaysHowMany) {
  EXPECT_EQ(adoptedEnd(3, 0), 3);
  EXPECT_EQ(adoptedEnd(-1, 64), 64 << 8 | 0xFF);
  EXPECT_GT(adoptedEnd(1, INT_MAX), 0);
}

TEST(OpenFiles, AreThoseOfTheProgramThatIsWatched) {
  const Opener one(100);
  const Opener another(200);
  Channel channels[] = {watched(one.pid()), watched(another.pid()), watched(another.pid())};
  channels[2].notes = true;
  lookAtOpenFiles(channels, std::size(channels));
  EXPECT_EQ(channels[0].open_files, openFilesOf(one.pid()));
  EXPECT_EQ(channels[1].open_files, channels[0].open_files + 100);
  EXPECT_EQ(channels[2].open_files, 0U) << "it is none of the program's";
  channels[0].sawOpenFiles(7);
  EXPECT_GT(channels[0].open_files, 100U) << "the most that was seen";
}

}  // namespace
}  // namespace cloister::runner

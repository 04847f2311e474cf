// SPDX-License-Identifier: Apache-2.0
// Programs on a terminal, and connections to servers inside, through the whole runner.
#include "runner/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "runner/testing/jail.h"
#include "wire/files.h"
#include "wire/string_writer.h"

namespace cloister::runner {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using testing::Jail;
using wire::ToRunner;

class TerminalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto jail = Jail::start(base::programDir() + "/cloister-runner");
    if (!jail) GTEST_SKIP() << jail.error().message;
    jail_ = std::move(*jail);
  }

  void open(uint32_t channel, const std::vector<std::string>& argv, uint8_t flags = 0) {
    for (const std::string& argument : argv)
      jail_->send(ToRunner::kText, channel, std::string(2, '\0') + argument);
    wire::StringWriter start;
    start.u8(wire::kStartTerminal | flags);
    start.bytes("");
    start.u16(100);
    start.u16(30);
    jail_->send(ToRunner::kStart, channel, start.take());
  }
  Ended run(const std::vector<std::string>& argv) {
    open(1, argv);
    return jail_->finish(1);
  }

  std::unique_ptr<Jail> jail_;
};

TEST(Terminal, OpensItsPeerByName) {
  const base::Fd ours(::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(ours) << strerror(errno);
  int locked = 0;
  ASSERT_EQ(ioctl(ours.get(), TIOCSPTLCK, &locked), 0);
  base::Fd theirs;
  ASSERT_EQ(openPeerByName(ours, theirs), 0);
  EXPECT_EQ(fcntl(theirs.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(fcntl(theirs.get(), F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(write(theirs.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(ours.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

// In a child with a devpts elsewhere than /dev/pts: the result of opening the peer by its name.
int errorElsewhere(const std::string& place) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 91;
  if (mount("devpts", place.c_str(), "devpts", 0, "newinstance,ptmxmode=666") != 0) return 92;
  const base::Fd ours(::open((place + "/ptmx").c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  int locked = 0;
  if (!ours || ioctl(ours.get(), TIOCSPTLCK, &locked) != 0) return 93;
  base::Fd theirs;
  const int error = openPeerByName(ours, theirs);
  return theirs ? 94 : error;
}

TEST(Terminal, OpensNothingElseByThatName) {
  const base::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  base::Fd theirs;
  EXPECT_EQ(openPeerByName(null, theirs), ENOTTY);
  EXPECT_FALSE(theirs);
  // The first terminal of the other devpts, while /dev/pts has another of the same number.
  const base::Fd taken(::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  int locked = 0;
  ASSERT_EQ(ioctl(taken.get(), TIOCSPTLCK, &locked), 0);
  const std::string place = ::testing::TempDir() + base::newId("pts");
  ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
  const pid_t child = fork();
  if (child == 0) _exit(errorElsewhere(place));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  rmdir(place.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  // The number is 0 if no other terminal exists; else terminal 0 of /dev/pts may be locked, or
  // absent.
  const int expected[] = {ENXIO, EIO, EACCES, ENOENT};
  EXPECT_THAT(expected, ::testing::Contains(WEXITSTATUS(status)));
}

TEST_F(TerminalTest, GivesAProgramItsOwn) {
  const Ended ended = run({"/bin/sh", "-c", "stty size; pwd; test -t 2 && echo err >&2; exit 3"});
  EXPECT_EQ(ended.out, "30 100\r\n/workspace\r\nerr\r\n");
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.code, 3U);
}

TEST_F(TerminalTest, LosesNothingAtTheEnd) {
  const Ended ended =
      run({"/bin/sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done"});
  EXPECT_THAT(ended.out, HasSubstr("\r\n2999\r\n"));
  EXPECT_EQ(ended.out.size(), 3000U * 2 + 10 + 180 + 2700 + 8000);
}

TEST_F(TerminalTest, EndsAsItsProgramDid) {
  const Ended killed = run({"/bin/sh", "-c", "kill -TERM $$"});
  EXPECT_TRUE(killed.signaled);
  EXPECT_EQ(killed.code, static_cast<uint32_t>(SIGTERM));
  EXPECT_EQ(run({"/no/such/program"}).start_errno, ENOENT);
}

TEST_F(TerminalTest, TakesTypedInputAndItsEnd) {
  open(1, {"cat"});
  jail_->send(ToRunner::kStdin, 1, "typed\n");
  jail_->send(ToRunner::kStdin, 1);
  const Ended ended = jail_->finish(1);
  EXPECT_EQ(ended.out, "typed\r\ntyped\r\n");
  EXPECT_EQ(ended.stdin_taken, 6U);
  EXPECT_EQ(ended.code, 0U);
}

TEST_F(TerminalTest, IsNotTogetherWithOtherInput) {
  open(1, {"cat"}, wire::kStartStdin);
  while (jail_->next()) {
  }
  EXPECT_EQ(jail_->wait(), 70);  // kExitProtocol
}

TEST_F(TerminalTest, ConnectsToNothingWhereNothingListens) {
  jail_->startProgram(1, {"connect", "9"}, wire::kStartFiles | wire::kStartStdin);
  const Ended ended = jail_->finish(1);
  EXPECT_EQ(ended.code, static_cast<uint32_t>(wire::files::kFailed));
  for (const char* port : {"0", "65536", "x", "-1", ""}) {
    jail_->startProgram(1, {"connect", port}, wire::kStartFiles | wire::kStartStdin);
    const Ended refused = jail_->finish(1);
    EXPECT_EQ(refused.code, static_cast<uint32_t>(wire::files::kFailed)) << port;
    EXPECT_EQ(wire::Reader(refused.err).u32(), static_cast<uint32_t>(EINVAL)) << port;
  }
}

}  // namespace
}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
// Programs beside each other, as in a session: each with its own window, its own end and its own
// groups.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "runner/link.h"
#include "runner/testing/jail.h"

namespace cloister::runner {
namespace {

using testing::Ended;
using testing::Frame;
using testing::Jail;
using wire::FromRunner;
using wire::ToRunner;

std::string number(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class BesideTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto jail = Jail::start(base::programDir() + "/cloister-runner");
    if (!jail) GTEST_SKIP() << jail.error().message;
    jail_ = std::move(*jail);
  }

  // Reads output of `channel` until its units are `units`, giving none back.
  void readUnits(uint32_t channel, uint32_t units) {
    for (uint32_t used = 0; used < units;) {
      const auto frame = jail_->next();
      ASSERT_TRUE(frame) << frame.error().message;
      if (frame->channel != channel || frame->type != FromRunner::kStdout) continue;
      used += wire::outputUnits(frame->payload.size());
      ASSERT_LE(used, wire::kOutputUnits);
    }
  }

  std::unique_ptr<Jail> jail_;
};

TEST_F(BesideTest, AFullWindowHoldsBackItsOwnProgramOnly) {
  jail_->startProgram(1, {"yes"}, wire::kStartWindow);
  readUnits(1, wire::kOutputUnits - 64);
  jail_->startProgram(2, {"echo", "other"}, wire::kStartWindow);
  EXPECT_EQ(jail_->finish(2).out, "other\n");
  jail_->send(ToRunner::kTaken, 1, number(100'000));
  readUnits(1, 100'000 - 64);
}

TEST_F(BesideTest, WhatItLeftInItsPipeWaitsForTheWindow) {
  jail_->startProgram(1, {"sh", "-c", "yes | head -c 262144; echo end; exit 7"},
                      wire::kStartWindow);
  readUnits(1, 200'000);
  jail_->startProgram(2, {"sh", "-c", "sleep 0.1; echo other"}, wire::kStartWindow);
  EXPECT_EQ(jail_->finish(2).out, "other\n");
  jail_->send(ToRunner::kTaken, 1, number(100'000));
  const Ended run = jail_->finish(1);
  EXPECT_TRUE(run.out.ends_with("end\n")) << run.out.substr(0, 20);
  EXPECT_EQ(run.code, 7U);
}

TEST_F(BesideTest, MoreThanWasSentCannotBeTaken) {
  jail_->startProgram(1, {"sleep", "1000"}, wire::kStartWindow);
  jail_->send(ToRunner::kTaken, 1, number(1));
  while (jail_->next()) {
  }
  EXPECT_EQ(jail_->wait(), kExitProtocol);
}

TEST_F(BesideTest, KillsAProgramWithItsTreeAndNothingElse) {
  jail_->startProgram(2, {"sleep", "1000"}, 0);
  jail_->startProgram(1, {"sh", "-c", "(setsid sleep 1000 & wait) & sleep 1000 & echo up; wait"},
                      0);
  for (Frame frame; frame.type != FromRunner::kStdout;)
    frame = jail_->next().value_or(Frame{FromRunner::kStdout, 0, ""});
  jail_->startProgram(3, {"sh", "-c", "until [ $(ls -d /proc/[0-9]* | wc -l) -ge 8 ]; do :; done"},
                      0);
  EXPECT_EQ(jail_->finish(3).code, 0U);
  jail_->send(ToRunner::kKill, 1);
  EXPECT_EQ(jail_->finish(1).code, static_cast<uint32_t>(SIGKILL));
  jail_->startProgram(
      3, {"sh", "-c", "until set -- /proc/[0-9]*; [ $# -le 3 ]; do :; done; echo $#"}, 0);
  EXPECT_EQ(jail_->finish(3).out, "3\n") << "runner, the sleep beside it and sh";
}

TEST_F(BesideTest, JoinsItsGroupsBeforeAnythingElse) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  jail_->sendGroups(1, {writer.get(), writer.get()});
  jail_->startProgram(1, {"sh", "-c", "ls /proc/self/fd | wc -l"}, 0);
  EXPECT_EQ(jail_->finish(1).out, "4\n") << "none of them stays open";
  char text[8];
  ASSERT_EQ(read(reader.get(), text, sizeof text), 2);
  EXPECT_EQ(std::string(text, 2), "00");
}

TEST_F(BesideTest, AGroupThatCannotBeJoinedIsNoStart) {
  const Fd null(open("/dev/null", O_RDONLY));
  jail_->sendGroups(1, {null.get()});
  jail_->startProgram(1, {"true"}, 0);
  EXPECT_EQ(jail_->finish(1).start_errno, EBADF);
}

TEST_F(BesideTest, GroupsWithoutDescriptorsAreRefused) {
  jail_->send(ToRunner::kGroups, 1, number(1));
  EXPECT_FALSE(jail_->next());
  EXPECT_EQ(jail_->wait(), kExitProtocol);
}

}  // namespace
}  // namespace cloister::runner

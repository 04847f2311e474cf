// SPDX-License-Identifier: Apache-2.0
#include "linux/command_helper.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace cloister::linux {
namespace {

using namespace std::chrono_literals;

class CommandHelperTest : public ::testing::Test {
 protected:
  void start(const std::string& script, std::chrono::milliseconds timeout = 60s) {
    helper_ =
        *startCommandHelper({.argv = {"/bin/sh", "-c", script}, .timeout = timeout, .user = {}});
  }
  HelperAnswer ask(const std::string& input) {
    EXPECT_TRUE(sendToHelper(helper_.get(), input));
    if (!input.empty()) EXPECT_TRUE(sendToHelper(helper_.get(), ""));
    const auto answer = receiveFromHelper(helper_.get(), 60s);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(HelperAnswer{});
  }
  // Helpers end with their sockets. Reap the helpers, since other tests count this process's
  // children.
  void TearDown() override {
    helper_.reset();
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  Fd helper_;
};

TEST_F(CommandHelperTest, GivesItsInputAndItsEndAgainAndAgain) {
  start("wc -c; exit 7");
  for (const size_t size : {0UL, 1UL, 65'536UL, 65'537UL, 5'000'000UL}) {
    const HelperAnswer answer = ask(std::string(size, 'x'));
    EXPECT_EQ(answer.what, 7);
    EXPECT_EQ(std::stoul(answer.said), size);
  }
}

TEST_F(CommandHelperTest, ACommandThatDoesNotReadHoldsNothingUp) {
  start("exit 0");
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(ask(std::string(1'000'000, 'x')).what, 0);
}

TEST_F(CommandHelperTest, TellsHowItEnded) {
  start("cat > /dev/null; kill -9 $$");
  EXPECT_EQ(ask("x").what, kHelperKilled);
  start("sleep 1000", 100ms);
  EXPECT_EQ(ask("x").what, kHelperTimedOut);
  start("exec >&- 2>&-; sleep 1000", 100ms);
  EXPECT_EQ(ask("x").what, kHelperTimedOut);
  start("exec /no/such/program");
  EXPECT_EQ(ask("x").what, kHelperNotRun);
}

TEST_F(CommandHelperTest, KeepsLittleOfWhatItSays) {
  start("head -c 3000000 /dev/zero | tr '\\0' x; exit 0");
  const HelperAnswer answer = ask("");
  EXPECT_EQ(answer.what, 0);
  EXPECT_EQ(answer.said, std::string(kMaxHelperSaid, 'x'));
}

TEST_F(CommandHelperTest, HasNeitherEnvironmentNorDescriptors) {
  ::setenv("CANARY_ENV", "secret", 1);
  start("env | grep -c CANARY; ls /proc/self/fd | wc -l; pwd; grep NoNewPrivs /proc/self/status");
  EXPECT_EQ(ask("x").said, "0\n4\n/\nNoNewPrivs:\t1\n")
      << "stdio, and the directory that is listed";
}

}  // namespace
}  // namespace cloister::linux

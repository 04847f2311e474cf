// SPDX-License-Identifier: Apache-2.0
// The supervisor over tables of parts. The parts are shells, and log their starts and signals.
#include "supervisor/supervisor.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::supervisor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

class SupervisorTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // A part that runs `script` with its name as $0, then reports readiness, and waits for SIGTERM.
  // $ready and $hung are paths of its descriptors.
  [[nodiscard]] Part part(const std::string& name, int stop_turn,
                          const std::string& script = "") const {
    const std::string whole =
        "cd " + dir_ +
        "; while [ $# -gt 1 ]; do case $1 in --ready-fd) ready=/proc/self/fd/$2;;"
        " --hung-fd) hung=/proc/self/fd/$2;; esac; shift 2; done;"
        "trap 'echo stop $0 >> log; kill $pause; echo stopped $0 >> log; exit 0' TERM;"
        "echo start $0 >> log; sleep 60 > /dev/null 2>&1 & pause=$!;" +
        script + "\necho ready > $ready; echo $$ >> up.$0; while :; do wait $pause; done";
    return {.name = name,
            .program = {.argv = {"/bin/sh", "-c", whole, name}, .env = {"PATH=/bin:/usr/bin"}},
            .stop_turn = stop_turn,
            .patience = Millis(5'000)};
  }

  // Runs the table to its first readiness, then stops the service.
  Result<> run(std::vector<Part> parts) {
    SupervisorConfig config;
    config.parts = std::move(parts);
    config.on_ready = []() -> Result<> {
      ::kill(::getpid(), SIGTERM);
      return {};
    };
    Supervisor supervisor = TRY(Supervisor::make(std::move(config)));
    return supervisor.run();
  }

  // Lines of `file`.
  [[nodiscard]] std::vector<std::string> lines(const std::string& file) const {
    std::istringstream text(base::readFile(dir_ + "/" + file).value_or(""));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);)
      all.push_back(line);
    return all;
  }

  std::string dir_ = testing::TempDir() + "cloister-XXXXXX";
};

TEST_F(SupervisorTest, StopsTurnByTurn) {
  const auto result = run({part("a", 2), part("b", 0), part("c", 1)});
  ASSERT_TRUE(result) << result.error().message;
  const std::vector<std::string> log = lines("log");
  ASSERT_EQ(log.size(), 9U);
  EXPECT_THAT(log, IsSupersetOf({"start a", "start b", "start c"}));
  EXPECT_THAT(std::vector(log.begin() + 3, log.end()),
              ElementsAre("stop b", "stopped b", "stop c", "stopped c", "stop a", "stopped a"));
}

TEST_F(SupervisorTest, PartsOfOneTurnStopTogether) {
  // Each part waits for the other part's SIGTERM.
  const std::string both =
      "trap 'echo stop $0 >> log; until [ $(grep -c ^stop log) = 2 ]; do sleep 0.01; done;"
      " kill $pause; exit 0' TERM";
  const auto result = run({part("a", 0, both), part("b", 0, both)});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(lines("log").size(), 4U);
}

TEST_F(SupervisorTest, ThePartThatHangsIsKilledAndStartedAgain) {
  Part node = part("node", 1);
  Part other = part("other", 1);
  // The first report names a process outside the watched part, and kills nothing.
  Part control = part("control", 0,
                      "until [ -s up.node ] && [ -s up.other ]; do sleep 0.01; done;"
                      "cat up.other > $hung; cat up.node > $hung;"
                      "until [ $(wc -l < up.node) = 2 ]; do sleep 0.01; done");
  control.watches = "node";
  const auto result = run({node, other, control});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(lines("up.node").size(), 2U);
  EXPECT_EQ(lines("up.other").size(), 1U);
}

TEST_F(SupervisorTest, ThePartWithAShortDelayIsBackSoonHoweverOftenItDies) {
  // Five deaths: 3.1 s of delays without the bound.
  Part mortal = part("mortal", 1,
                     "if [ ! -s up.mortal ] || [ $(wc -l < up.mortal) -lt 5 ]; then "
                     "echo ready > $ready; echo $$ >> up.mortal; kill $pause; exit 1; fi");
  mortal.longest_delay = Millis(50);
  Part control = part("control", 0, "until [ $(wc -l < up.mortal) = 6 ]; do sleep 0.01; done");
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(run({mortal, control}));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(2'500));
  EXPECT_EQ(lines("up.mortal").size(), 6U);
}

TEST_F(SupervisorTest, EveryProbeIsAskedUntilItSucceeds) {
  int first = 0;
  int second = 0;
  Part a = part("a", 0);
  Part b = part("b", 0);
  a.probe = [&](int) { return ++first > 1; };
  b.probe = [&](int) { return ++second > 1; };
  ASSERT_TRUE(run({a, b, part("c", 0)}));
  EXPECT_EQ(first, 3);
  EXPECT_EQ(second, 2);
}

TEST_F(SupervisorTest, APartThatNeverWasReadyEndsTheService) {
  const auto result = run({part("a", 1), part("b", 0, "kill $pause; exit 3")});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("starting b: it exited with status 3"));
  EXPECT_TRUE(lines("log").size() <= 2U);
}

}  // namespace
}  // namespace cloister::supervisor

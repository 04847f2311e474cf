// SPDX-License-Identifier: Apache-2.0
// The command filter's time for a command: each of tests/data/agent_commands.txt, read and judged
// by the standard level. Prints a line of JSON: filter_bench [ROUNDS].
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "policy/command/filter.h"

namespace {

using namespace cloister;

std::vector<std::string> commands() {
  std::vector<std::string> all;
  std::istringstream text(
      base::readFile(CLOISTER_SOURCE_DIR "/tests/data/agent_commands.txt").value());
  for (std::string line; std::getline(text, line);) {
    for (size_t at = 0; (at = line.find("\\n", at)) != std::string::npos;)
      line.replace(at, 2, "\n");
    if (!line.empty() && line[0] != '#') all.push_back(std::move(line));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  const policy::Levels levels =
      policy::parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(),
                          "levels")
          .value();
  const policy::Level& level = levels.levels.find("standard")->second;
  const std::vector<std::string> all = commands();
  std::vector<double> took;
  size_t allowed = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const std::string& command : all) {
      const auto start = base::monotonicNow();
      const auto verdict = policy::judgeCommand(level, policy::effectsOf(command, levels.bounds));
      took.push_back(
          std::chrono::duration<double, std::micro>(base::monotonicNow() - start).count());
      allowed += verdict.outcome == policy::Outcome::kAllow ? 1 : 0;
    }
  }
  std::ranges::sort(took);
  const auto at = [&](double share) {
    return took[static_cast<size_t>(share * static_cast<double>(took.size() - 1))];
  };
  std::printf(
      R"({"bench":"filter","commands":%zu,"allowed":%.3f,"p50_us":%.1f,"p99_us":%.1f,"max_us":%.1f})"
      "\n",
      took.size(), static_cast<double>(allowed) / static_cast<double>(took.size()), at(0.5),
      at(0.99), took.back());
  return 0;
}

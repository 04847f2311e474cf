// SPDX-License-Identifier: Apache-2.0
// Measures contestants (contestant.h): in turns, and under load. Called from a single thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/contestant.h"

namespace cloister::bench {

// A contestant's work; both outlive the lane.
struct Lane {
  const Work* work = nullptr;
  Contestant* contestant = nullptr;
  std::vector<double> millis = {};  // sorted once measured
};

// The work done by many clients.
struct Load {
  std::vector<double> millis = {};  // sorted
  double seconds = 0;               // duration
  int failed = 0;
  std::string why = {};  // the first failure

  [[nodiscard]] double perSecond() const { return static_cast<double>(millis.size()) / seconds; }
};

// `true`, print(1) in Python and console.log(1) in Node.
std::vector<Work> works();

// Milliseconds of a run, which must print the expected output.
Result<double> timed(Client& client, const Work& work);

// `contestant` if able to run `work` here; otherwise nullptr, and the reason on stderr.
std::unique_ptr<Contestant> enter(Result<std::unique_ptr<Contestant>> contestant, const char* name,
                                  const Work& work);

// `runs` rounds; each round runs every lane once, in another order each time: the kernel's cleaning
// up after a lane falls on the next, which must not always be the same. A few uncounted rounds go
// first. Waits for `pause` before each run.
Result<> interleave(std::vector<Lane>& lanes, int runs, std::chrono::milliseconds pause = {});

// `clients` threads, each with a client of its own, for `seconds`; added to `total`.
void addLoad(Load& total, Contestant& contestant, const Work& work, int clients, double seconds);

// Runs `bench` with a fresh directory, accessible to other users, and removes the directory. Gives
// main's return value; `name` is for messages.
int inDirectory(const char* name, const std::function<Result<>(const std::string& dir)>& bench);

// Reads "--name N" pairs into the values named; false, with the usage on stderr, for anything else.
struct Argument {
  const char* name;
  int* value;  // at least 1
};
bool parseArguments(int argc, char** argv, const std::vector<Argument>& arguments);

}  // namespace cloister::bench

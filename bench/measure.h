// SPDX-License-Identifier: Apache-2.0
// Measuring contestants (contestant.h): one after the other in turns, and under load. Called from
// one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/contestant.h"

namespace cloister::bench {

// One work of one contestant; both outlive it.
struct Lane {
  const Work* work = nullptr;
  Contestant* contestant = nullptr;
  std::vector<double> millis = {};  // sorted once measured
};

// What many clients got done.
struct Load {
  std::vector<double> millis = {};  // sorted
  double seconds = 0;               // how long it took
  int failed = 0;
  std::string why = {};  // the first failure

  [[nodiscard]] double perSecond() const { return static_cast<double>(millis.size()) / seconds; }
};

// `true`, print(1) in Python and console.log(1) in Node.
std::vector<Work> works();

// Milliseconds of one run, which must print what it should.
Result<double> timed(Client& client, const Work& work);

// `contestant` if it can run `work` here; otherwise nullptr, and why on stderr.
std::unique_ptr<Contestant> enter(Result<std::unique_ptr<Contestant>> contestant, const char* name,
                                  const Work& work);

// `runs` rounds, in each every lane once, in another order each time: what one leaves for the
// kernel to tidy up falls on whoever comes next, and must not always be the same. A few rounds more
// go before and are not counted. Before each run it waits for `pause`.
Result<> interleave(std::vector<Lane>& lanes, int runs, std::chrono::milliseconds pause = {});

// `clients` threads, each with a client of its own, for `seconds`; added to `total`.
void addLoad(Load& total, Contestant& contestant, const Work& work, int clients, double seconds);

// Runs `bench` with a fresh directory, which other users can enter, and removes it. Gives what main
// returns; `name` is for messages.
int inDirectory(const char* name, const std::function<Result<>(const std::string& dir)>& bench);

// Reads "--name N" pairs into the values named; false, with the usage on stderr, for anything else.
struct Argument {
  const char* name;
  int* value;  // at least 1
};
bool parseArguments(int argc, char** argv, const std::vector<Argument>& arguments);

}  // namespace cloister::bench

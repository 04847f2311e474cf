// SPDX-License-Identifier: Apache-2.0
// Shared by the two halves of warm_bench: measurements (warm_bench.cc) and output (warm_report.cc).
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "bench/contestant.h"
#include "bench/cpu_meter.h"
#include "bench/footprint.h"
#include "bench/measure.h"
#include "bench/permission.h"

namespace cloister::bench {

struct WarmOptions {
  int runs = 300;    // of each pair, for latency
  int seconds = 60;  // of each tool with each number of clients
};

// A tool under load, and the processor time spent.
struct Loaded {
  Load load;
  double cpu_seconds = 0;
};

// The same load on both.
struct LoadPair {
  int clients = 0;
  Loaded bare;
  Loaded ours;
};

struct WarmBench {
  WarmOptions options;
  CpuMeter cpu;  // first member: lives longest
  std::vector<Work> works;
  Work cold;        // `cloister run` with no server
  Work gvisor;      // Python in our gVisor
  Work exec, cell;  // `true`, and 1+1 in an interpreter, both in a session
  std::unique_ptr<Contestant> bare, bubblewrap, ours;
  std::unique_ptr<Contestant> runsc;    // nullptr without runsc
  std::unique_ptr<Contestant> session;  // sessions of `ours`
  std::vector<Lane> lanes;              // all but the next
  std::vector<Lane> cold_lanes;         // bare Python, and `cold`
  std::vector<Lane> gvisor_lanes;       // `runsc do`, and `gvisor`; empty without runsc
  std::vector<Lane> session_lanes;      // bare `true`, `exec` and `cell`
  double idle = 0;                      // processors busy before the benchmark
  Footprint fresh;                      // before anything ran
  Footprint ready;                      // right after a load of Python programs
  PermissionTimes permission;
  std::vector<LoadPair> loads;
};

// Prints the tables and writes the page, the plot and the JSON.
Result<> report(const WarmBench& bench);

}  // namespace cloister::bench

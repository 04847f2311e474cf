// SPDX-License-Identifier: Apache-2.0
// The cost of an isolated run: bare spawn, bubblewrap, crun and a fresh Cloister sandbox over HTTP,
// for three programs, interleaved so that other load on the machine affects all alike.
//
//   run_bench [--runs N] [--seconds S] [--clients C]
//
// Prints a table; writes the table into docs/BENCHMARKS.md, and all figures into run.json
// (figures.h).
#include <cstdio>

#include "base/file.h"
#include "bench/contestant.h"
#include "bench/figures.h"
#include "bench/measure.h"

namespace cloister::bench {
namespace {

namespace json = base::json;

struct Options {
  int runs = 200;   // of each pair, for latency
  int seconds = 4;  // of each pair, for throughput
  int clients = 8;
};

struct Bench {
  Options options;
  std::vector<Work> works;
  std::vector<std::unique_ptr<Contestant>> contestants;
  std::vector<Lane> lanes;  // every contestant for the first work, then for the next
  std::vector<Load> loads;  // of each lane
};

Result<> measureThroughput(Bench& bench) {
  constexpr int kRounds = 2;
  const double seconds = static_cast<double>(bench.options.seconds) / kRounds;
  bench.loads.resize(bench.lanes.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < bench.lanes.size(); ++i) {
      const Lane& lane = bench.lanes[i];
      Load& load = bench.loads[i];
      addLoad(load, *lane.contestant, *lane.work, bench.options.clients, seconds);
      if (load.failed == 0) continue;
      return fail(Code::kInternal, lane.contestant->name() + ": " + std::to_string(load.failed) +
                                       " runs failed: " + load.why);
    }
  }
  return {};
}

Result<> report(const Bench& bench) {
  const json::object where = machine();
  json::array figures;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < bench.lanes.size(); ++i) {
    const Lane& lane = bench.lanes[i];
    const Lane& bare = bench.lanes[i - i % bench.contestants.size()];
    const double times_bare = quantile(lane.millis, 0.5) / quantile(bare.millis, 0.5);
    const double per_second = bench.loads[i].perSecond();
    json::object row = latency(lane.millis);
    row["work"] = lane.work->name;
    row["tool"] = lane.contestant->name();
    row["times_bare"] = times_bare;
    row["runs_per_second"] = per_second;
    figures.push_back(row);
    std::vector<std::string> cells = {lane.work->name, lane.contestant->name()};
    for (std::string& cell : latencyCells(lane.millis))
      cells.push_back(std::move(cell));
    cells.insert(cells.end(), {number(times_bare, 2), number(per_second, 0)});
    rows.push_back(cells);
  }
  const std::string text = table({"work", "tool", "min ms", "p50 ms", "p90 ms", "p99 ms", "× bare",
                                  "runs/s, " + std::to_string(bench.options.clients) + " clients"},
                                 rows) +
                           "\n" + std::to_string(bench.options.runs) +
                           " runs of each, interleaved; " + describe(where);
  std::fputs(text.c_str(), stdout);
  TRY(writeJson("run", {{"machine", where}, {"rows", figures}}));
  return writeSection("run", text);
}

Result<> runAll(const Options& options, const std::string& dir) {
  Bench bench{.options = options, .works = works(), .contestants = {}, .lanes = {}, .loads = {}};
  const auto add = [&](Result<std::unique_ptr<Contestant>> contestant, const char* name) {
    auto entered = enter(std::move(contestant), name, bench.works[0]);
    if (entered) bench.contestants.push_back(std::move(entered));
  };
  // The servers first: crun changes the view of later children.
  auto cold = cloister(base::programDir(), dir + "/cold", false);
  auto ours = cloister(base::programDir(), dir + "/state", true);
  add(bare(), "bare");
  add(bubblewrap(), "bubblewrap");
  add(crun(dir + "/crun", bench.works), "crun");
  add(std::move(cold), "cloister, no pool");
  add(std::move(ours), "cloister");
  if (bench.contestants.empty() || bench.contestants.back()->name() != "cloister") {
    return fail(Code::kUnavailable, "without bare spawn and Cloister there is nothing to compare");
  }
  for (const Work& work : bench.works) {
    for (const auto& contestant : bench.contestants)
      bench.lanes.push_back({.work = &work, .contestant = contestant.get()});
  }
  TRY(interleave(bench.lanes, options.runs));
  TRY(measureThroughput(bench));
  return report(bench);
}

int main(int argc, char** argv) {
  Options options;
  if (!parseArguments(argc, argv,
                      {{"--runs", &options.runs},
                       {"--seconds", &options.seconds},
                       {"--clients", &options.clients}})) {
    return 2;
  }
  return inDirectory("run_bench", [&](const std::string& dir) { return runAll(options, dir); });
}

}  // namespace
}  // namespace cloister::bench

int main(int argc, char** argv) {
  return cloister::bench::main(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
// The cost of Cloister once warm, beside bare spawn and bubblewrap and against its targets:
// latency, sustained load, memory of ready sandboxes, processor time of a run, a permission check.
// All Cloister figures are over HTTP, with records.
//
//   warm_bench [--runs N] [--seconds S]
//
// Prints its tables; writes them into docs/BENCHMARKS.md with a plot, docs/benchmarks-warm.svg, and
// all figures into warm.json (figures.h).
#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/file.h"
#include "bench/warm.h"

namespace cloister::bench {
namespace {

// Typical shell work, in addition to the works of run_bench.
std::vector<Work> warmWorks() {
  std::vector<Work> all = works();
  all.insert(all.begin() + 1, {.name = "shell",
                               .argv = {"/usr/bin/bash", "-c", "true"},
                               .request = R"({"command":"true"})",
                               .output = ""});
  return all;
}

const Work& work(const WarmBench& bench, std::string_view name) {
  return *std::ranges::find(bench.works, name, &Work::name);
}

// An unreadable footprint costs its own row only.
Footprint orNone(Result<Footprint> footprint) {
  if (footprint) return *std::move(footprint);
  std::fprintf(stderr, "memory is not measured: %s\n", footprint.error().message.c_str());
  return {};
}

Result<> measureIdle(WarmBench& bench) {
  constexpr int kPatience = 300;
  constexpr auto kWindow = std::chrono::seconds(3);
  std::fputs("waiting for the server's background work to end (half a minute or more)\n", stderr);
  TRY(settle(bench.ours->server(), kPatience));
  const double before = bench.cpu.seconds();
  std::this_thread::sleep_for(kWindow);
  bench.idle = (bench.cpu.seconds() - before) / std::chrono::duration<double>(kWindow).count();
  bench.fresh = orNone(footprint(bench.ours->server()));
  return {};
}

Result<> measureLatency(WarmBench& bench) {
  for (const Work& each : bench.works) {
    for (Contestant* one : {bench.bare.get(), bench.bubblewrap.get(), bench.ours.get()}) {
      if (one != nullptr) bench.lanes.push_back({.work = &each, .contestant = one});
    }
  }
  bench.cold_lanes = {{.work = &work(bench, "python"), .contestant = bench.bare.get()},
                      {.work = &bench.cold, .contestant = bench.bare.get()}};
  TRY(interleave(bench.lanes, bench.options.runs));
  return interleave(bench.cold_lanes, bench.options.runs);
}

// Between runs the pool makes its next sandbox, as during an agent's thinking: a start of gVisor
// takes a fifth of a second, and Python inside as long again. So the runs are fewer.
Result<> measureGvisor(WarmBench& bench) {
  constexpr int kFewer = 6;
  constexpr std::chrono::milliseconds kThought{1'000};
  if (bench.runsc == nullptr) return {};
  bench.gvisor_lanes = {{.work = &work(bench, "python"), .contestant = bench.runsc.get()},
                        {.work = &bench.gvisor, .contestant = bench.ours.get()}};
  return interleave(bench.gvisor_lanes, std::max(10, bench.options.runs / kFewer), kThought);
}

Result<> measureSessions(WarmBench& bench) {
  bench.session_lanes = {{.work = &work(bench, "true"), .contestant = bench.bare.get()},
                         {.work = &bench.exec, .contestant = bench.session.get()},
                         {.work = &bench.cell, .contestant = bench.session.get()}};
  return interleave(bench.session_lanes, bench.options.runs);
}

void addSlice(const WarmBench& bench, Loaded& total, Contestant& contestant, int clients,
              double seconds) {
  const double before = bench.cpu.seconds();
  addLoad(total.load, contestant, work(bench, "python"), clients, seconds);
  total.cpu_seconds += bench.cpu.seconds() - before;
}

// In slices, so that other load on the machine affects both alike. The first load has a single
// client.
Result<> measureLoads(WarmBench& bench) {
  constexpr int kSlice = 20;  // s
  const int slices = std::max(1, bench.options.seconds / kSlice);
  const double seconds = static_cast<double>(bench.options.seconds) / slices;
  for (const int clients : {1, 8, 64}) {
    LoadPair pair{.clients = clients, .bare = {}, .ours = {}};
    for (int slice = 0; slice < slices; ++slice) {
      addSlice(bench, pair.bare, *bench.bare, clients, seconds);
      addSlice(bench, pair.ours, *bench.ours, clients, seconds);
    }
    for (const Load& load : {pair.bare.load, pair.ours.load}) {
      if (load.millis.empty()) return fail(Code::kInternal, "no run succeeded: " + load.why);
      if (load.failed > 0) std::fprintf(stderr, "a run failed: %s\n", load.why.c_str());
    }
    bench.loads.push_back(std::move(pair));
  }
  return {};
}

Result<> runAll(const WarmOptions& options, const std::string& dir) {
  constexpr int kPatience = 10;  // s, for the pool to come to rest
  constexpr int kChecksPerRun = 50;
  WarmBench bench;
  bench.options = options;
  bench.works = warmWorks();
  bench.cold = {.name = "cold",
                .argv = {base::programDir() + "/cloister", "run", "--state", dir + "/nobody", "-c",
                         "print(1)"},
                .request = "",
                .output = "1\n"};
  bench.gvisor = work(bench, "python");
  bench.gvisor.request = R"({"language":"python","code":"print(1) ","runtime":"gvisor"})";
  bench.exec = {.name = "exec", .argv = {}, .request = R"({"command":["true"]})", .output = ""};
  bench.cell = {.name = "cell", .argv = {}, .request = R"({"code":"1+1"})", .output = ""};
  bench.bare = bare();
  bench.runsc = enter(runscDo(), "runsc do", work(bench, "python"));
  bench.session = inSession(dir + "/state", "python");
  bench.bubblewrap = enter(bubblewrap(), "bubblewrap", bench.works[0]);
  bench.ours = TRY(cloister(base::programDir(), dir + "/state", true));
  TRY(measureIdle(bench));
  bench.permission = TRY(measurePermission(options.runs * kChecksPerRun));
  TRY(measureLatency(bench));
  TRY(measureGvisor(bench));
  TRY(measureSessions(bench));
  TRY(measureLoads(bench));
  bench.ready = orNone(readyFootprint(bench.ours->server(), "python", kPatience));
  return report(bench);
}

int main(int argc, char** argv) {
  WarmOptions options;
  if (!parseArguments(argc, argv, {{"--runs", &options.runs}, {"--seconds", &options.seconds}})) {
    return 2;
  }
  return inDirectory("warm_bench", [&](const std::string& dir) { return runAll(options, dir); });
}

}  // namespace
}  // namespace cloister::bench

int main(int argc, char** argv) {
  return cloister::bench::main(argc, argv);
}

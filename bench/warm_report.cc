// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "bench/figures.h"
#include "bench/plot.h"
#include "bench/targets.h"
#include "bench/warm.h"

namespace cloister::bench {
namespace {

namespace json = base::json;

constexpr double kMB = 1e6;
constexpr const char* kPlot = "benchmarks-warm.svg";

const char* toolOf(const WarmBench& bench, const Lane& lane) {
  if (lane.work == &bench.cold) return "cloister run";
  if (lane.contestant == bench.runsc.get()) return "runsc do";
  if (lane.contestant == bench.session.get()) return "cloister";
  return lane.contestant == bench.ours.get()   ? "cloister"
         : lane.contestant == bench.bare.get() ? "bare"
                                               : "bubblewrap";
}

double quantileOf(const WarmBench& bench, const char* name, const Contestant* by, double share) {
  const auto found = std::ranges::find_if(bench.lanes, [&](const Lane& lane) {
    return lane.work->name == name && lane.contestant == by;
  });
  return found == bench.lanes.end() ? 0 : quantile(found->millis, share);
}

double cpuMillis(const WarmBench& bench, const Loaded& of) {
  const double busy = of.cpu_seconds - bench.idle * of.load.seconds;
  return std::max(0.0, busy) * 1000 / static_cast<double>(of.load.millis.size());
}

// The median over ready sandboxes with Python; 0 without any.
double medianOf(const Footprint& footprint, double ReadySandbox::* value) {
  std::vector<double> values;
  for (const ReadySandbox& sandbox : footprint.sandboxes) {
    if (sandbox.program.starts_with("python")) values.push_back(sandbox.*value);
  }
  std::ranges::sort(values);
  return values.empty() ? 0 : quantile(values, 0.5);
}

Target latencyTarget(const WarmBench& bench, const char* name, const char* title, double share,
                     double limit) {
  return {.work = title,
          .unit = "ms",
          .figure = quantileOf(bench, name, bench.ours.get(), share),
          .peer = "bare",
          .beside = quantileOf(bench, name, bench.bare.get(), share),
          .judge = Judge::kRatioAtMost,
          .limit = limit};
}

Target shellTarget(const WarmBench& bench, const char* name, const char* title, const char* note) {
  const auto* peer = bench.bubblewrap.get();
  return {.work = title,
          .unit = "ms",
          .figure = quantileOf(bench, name, bench.ours.get(), 0.5),
          .peer = "bubblewrap",
          .beside = peer == nullptr ? 0 : quantileOf(bench, name, peer, 0.5),
          .judge = Judge::kRatioAtMost,
          .limit = 1,
          .note = note};
}

Target loadTarget(const WarmBench& bench) {
  const LoadPair& pair = *std::ranges::find(bench.loads, 8, &LoadPair::clients);
  return {.work = "Python, 8 clients, " + std::to_string(bench.options.seconds) + " s",
          .unit = "runs/s",
          .figure = pair.ours.load.perSecond(),
          .peer = "bare",
          .beside = pair.bare.load.perSecond(),
          .judge = Judge::kRatioAtLeast,
          .limit = 3};
}

Target gvisorTarget(const WarmBench& bench) {
  Target target = {.work = "gVisor Python from the pool, p50",
                   .unit = "ms",
                   .peer = "`runsc do`",
                   .limit = 0.05,
                   .note = "needs `runsc`"};
  if (bench.gvisor_lanes.empty()) return target;
  target.beside = quantile(bench.gvisor_lanes[0].millis, 0.5);
  target.figure = quantile(bench.gvisor_lanes[1].millis, 0.5);
  target.note = "one at a time, a second between; systrap on both sides";
  return target;
}

Target execTarget(const WarmBench& bench) {
  return {.work = "exec in a session, p50, above bare spawn",
          .unit = "ms",
          .figure = quantile(bench.session_lanes[1].millis, 0.5) -
                    quantile(bench.session_lanes[0].millis, 0.5),
          .judge = Judge::kAtMost,
          .limit = 0.5,
          .note = "`true` on both sides; ours over HTTP, with two durable records"};
}

std::vector<Target> targetsOf(const WarmBench& bench) {
  const std::string processes = std::to_string(bench.fresh.processes) + " processes, no run yet";
  return {
      latencyTarget(bench, "python", "Python `print(1)`, p50", 0.5, 0.15),
      latencyTarget(bench, "python", "Python `print(1)`, p99", 0.99, 0.5),
      loadTarget(bench),
      latencyTarget(bench, "node", "Node `console.log(1)`, p50", 0.5, 0.3),
      shellTarget(bench, "true", "command `true`, p50", "an argv, no shell, on both sides"),
      shellTarget(bench, "shell", "shell `true`, p50", "`bash -c true` on both sides"),
      gvisorTarget(bench),
      execTarget(bench),
      {.work = "permission check, p99",
       .unit = "µs",
       .figure = quantile(bench.permission.decision, 0.99),
       .judge = Judge::kAtMost,
       .limit = 50,
       .note = "the policy's decision, in process; with a signed permit: " +
               number(quantile(bench.permission.permit, 0.99), 0) + " µs"},
      {.work = "ready Python sandbox, PSS",
       .unit = "MB",
       .figure = medianOf(bench.ready, &ReadySandbox::pss) / kMB,
       .judge = Judge::kAtMost,
       .limit = 0.5,
       .note = "runner and interpreter; median"},
      {.work = "server, idle, empty pool, PSS",
       .unit = "MB",
       .figure = bench.fresh.pss / kMB,
       .judge = Judge::kAtMost,
       .limit = 30,
       .note = processes},
      {.work = "`cloister run` with no server, p50",
       .unit = "ms",
       .figure = quantile(bench.cold_lanes[1].millis, 0.5),
       .peer = "bare",
       .beside = quantile(bench.cold_lanes[0].millis, 0.5),
       .judge = Judge::kRatioAtMost,
       .limit = 3,
       .note = "starts a private server, and ends it"},
  };
}

struct Part {
  std::string text;
  json::value figures;
};

Part latencyPart(const WarmBench& bench) {
  json::array figures;
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const Lane& lane, const char* name, double bare) {
    const double times_bare = quantile(lane.millis, 0.5) / bare;
    json::object row = latency(lane.millis);
    row["work"] = name;
    row["tool"] = toolOf(bench, lane);
    row["times_bare"] = times_bare;
    figures.push_back(row);
    rows.push_back({name, toolOf(bench, lane)});
    for (std::string& cell : latencyCells(lane.millis))
      rows.back().push_back(std::move(cell));
    rows.back().push_back(number(times_bare, 2));
  };
  for (const Lane& lane : bench.lanes)
    add(lane, lane.work->name.c_str(),
        quantileOf(bench, lane.work->name.c_str(), bench.bare.get(), 0.5));
  for (const Lane& lane : bench.cold_lanes)
    add(lane, "python, no server", quantile(bench.cold_lanes[0].millis, 0.5));
  for (const Lane& lane : bench.gvisor_lanes)
    add(lane, "python, gVisor", quantileOf(bench, "python", bench.bare.get(), 0.5));
  const char* const in_session[] = {"true, for a session", "exec in a session",
                                    "cell `1+1` in a session"};
  for (size_t i = 0; i < bench.session_lanes.size(); ++i)
    add(bench.session_lanes[i], in_session[i], quantile(bench.session_lanes[0].millis, 0.5));
  return {table({"work", "tool", "min ms", "p50 ms", "p90 ms", "p99 ms", "× bare"}, rows) + "\n" +
              std::to_string(bench.options.runs) +
              " runs of each, interleaved; a sixth of that in gVisor.\n",
          figures};
}

Part loadPart(const WarmBench& bench) {
  json::array figures;
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](int clients, const char* tool, const Loaded& loaded) {
    const Load& load = loaded.load;
    json::object row = latency(load.millis);
    row["clients"] = clients;
    row["tool"] = tool;
    row["seconds"] = load.seconds;
    row["runs_per_second"] = load.perSecond();
    row["cpu_ms_per_run"] = cpuMillis(bench, loaded);
    row["failed"] = load.failed;
    figures.push_back(row);
    rows.push_back({std::to_string(clients), tool, number(load.perSecond(), 0)});
    for (std::string& cell : latencyCells(load.millis))
      rows.back().push_back(std::move(cell));
    rows.back().push_back(number(cpuMillis(bench, loaded), 2));
    rows.back().push_back(std::to_string(load.failed));
  };
  for (const LoadPair& pair : bench.loads) {
    add(pair.clients, "bare", pair.bare);
    add(pair.clients, "cloister", pair.ours);
  }
  return {table({"clients", "tool", "runs/s", "min ms", "p50 ms", "p90 ms", "p99 ms", "CPU ms/run",
                 "failed"},
                rows) +
              "\nPython `print(1)`, " + std::to_string(bench.options.seconds) +
              " s of each, in turns. CPU: " + bench.cpu.what() + ".\n",
          figures};
}

Part memoryPart(const WarmBench& bench) {
  const double pss = medianOf(bench.ready, &ReadySandbox::pss);
  const double charge = medianOf(bench.ready, &ReadySandbox::charge);
  const std::string ready = std::to_string(bench.ready.sandboxes.size());
  return {table({"what", "PSS MB", "charged to its cgroup MB"},
                {{"server, settled, before any run", number(bench.fresh.pss / kMB, 2), "—"},
                 {"server right after the loads, with the interpreters it copies",
                  number(bench.ready.pss / kMB, 2), "—"},
                 {"one ready Python sandbox, of " + ready + " ready ones", number(pss / kMB, 2),
                  number(charge / kMB, 2)}}),
          json::object{{"server_fresh_pss_bytes", bench.fresh.pss},
                       {"server_fresh_processes", bench.fresh.processes},
                       {"server_after_load_pss_bytes", bench.ready.pss},
                       {"server_after_load_processes", bench.ready.processes},
                       {"ready_sandboxes", bench.ready.sandboxes.size()},
                       {"ready_python_pss_bytes", pss},
                       {"ready_python_charge_bytes", charge}}};
}

json::object inMicros(const std::vector<double>& sorted) {
  return {{"checks", sorted.size()},
          {"p50_us", quantile(sorted, 0.5)},
          {"p90_us", quantile(sorted, 0.9)},
          {"p99_us", quantile(sorted, 0.99)}};
}

std::string plotOf(const WarmBench& bench) {
  std::vector<Panel> panels;
  for (const Work& each : bench.works) {
    panels.push_back({each.name, {}});
    for (const Lane& lane : bench.lanes) {
      if (lane.work == &each) panels.back().curves.push_back({toolOf(bench, lane), lane.millis});
    }
  }
  panels.push_back({"python, no server running", {}});
  for (const Lane& lane : bench.cold_lanes)
    panels.back().curves.push_back({toolOf(bench, lane), lane.millis});
  return latencyPlot("Latency of one run", panels);
}

}  // namespace

Result<> report(const WarmBench& bench) {
  const json::object where = machine();
  const std::vector<Target> targets = targetsOf(bench);
  const Part latencies = latencyPart(bench);
  const Part loads = loadPart(bench);
  const Part memory = memoryPart(bench);
  const std::string text = targetTable(targets) + "\n" + describe(where) + "\n" + latencies.text +
                           "\n" + loads.text + "\n" + memory.text;
  std::fputs(text.c_str(), stdout);
  TRY(writeJson(
      "warm", {{"machine", where},
               {"cpu", bench.cpu.what()},
               {"idle_busy_cores", bench.idle},
               {"targets", toJsonArray(targets)},
               {"latency", latencies.figures},
               {"load", loads.figures},
               {"memory", memory.figures},
               {"permission", json::object{{"decision", inMicros(bench.permission.decision)},
                                           {"with_permit", inMicros(bench.permission.permit)}}}}));
  TRY(writePlot(kPlot, plotOf(bench)));
  return writeSection("warm", text);
}

}  // namespace cloister::bench

// SPDX-License-Identifier: Apache-2.0
// What one isolated run costs: bare spawn, bubblewrap, crun and a fresh Cloister sandbox over HTTP,
// for three programs, interleaved so that whatever else the machine does falls on all alike.
//
//   run_bench [--runs N] [--seconds S] [--clients C]
//
// Prints a table; writes it between the markers of $CLOISTER_BENCH_DOCS/BENCHMARKS.md, and all
// figures to $CLOISTER_BENCH_OUT/run.json.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "bench/contestant.h"

namespace cloister::bench {
namespace {

namespace json = base::json;
using Clock = std::chrono::steady_clock;

struct Options {
  int runs = 200;   // of each pair, for latency
  int seconds = 4;  // of each pair, for throughput
  int clients = 8;
};

struct Figures {
  std::vector<double> millis;
  double per_second = 0;
};

struct Bench {
  Options options;
  std::vector<Work> works;
  std::vector<std::unique_ptr<Contestant>> contestants;
  std::vector<std::vector<Figures>> figures;  // [work][contestant]
};

std::vector<Work> allWorks() {
  return {
      {"true", {"/usr/bin/true"}, R"({"command":["true"]})", ""},
      {"python",
       {"/usr/bin/python3", "-c", "print(1)"},
       R"({"language":"python","code":"print(1) "})",
       "1\n"},
      {"node",
       {"/usr/bin/node", "-e", "console.log(1)"},
       R"({"language":"node","code":"console.log(1) "})",
       "1\n"},
  };
}

Result<double> timed(Client& client, const Work& work) {
  const auto start = Clock::now();
  const std::string output = TRY(client.run(work));
  const double took = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (output != work.output) {
    return fail(Code::kInternal, work.name + ": printed \"" + output + "\"");
  }
  return took;
}

// Every contestant once for each work in turn, the first one another each time.
Result<> measureLatency(Bench& bench) {
  std::vector<std::unique_ptr<Client>> clients;
  for (const auto& contestant : bench.contestants)
    clients.push_back(TRY(contestant->client()));
  constexpr int kWarmUp = 5;
  for (int run = -kWarmUp; run < bench.options.runs; ++run) {
    for (size_t w = 0; w < bench.works.size(); ++w) {
      for (size_t i = 0; i < clients.size(); ++i) {
        const size_t c = (i + static_cast<size_t>(run + kWarmUp)) % clients.size();
        const double took = TRY(timed(*clients[c], bench.works[w]));
        if (run >= 0) bench.figures[w][c].millis.push_back(took);
      }
    }
  }
  return {};
}

Result<double> throughput(Contestant& contestant, const Work& work, const Options& options,
                          double seconds) {
  std::atomic<int> done = 0;
  std::atomic<int> failed = 0;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(seconds);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.clients; ++i) {
      threads.emplace_back([&] {
        const auto client = contestant.client();
        while (client && Clock::now() < end) {
          (timed(**client, work) ? done : failed) += 1;
        }
        if (!client) failed += 1;
      });
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  if (failed > 0) {
    return fail(Code::kInternal,
                contestant.name() + ": " + std::to_string(failed) + " runs failed");
  }
  return done / took;
}

Result<> measureThroughput(Bench& bench) {
  constexpr int kRounds = 2;
  const double seconds = static_cast<double>(bench.options.seconds) / kRounds;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t w = 0; w < bench.works.size(); ++w) {
      for (size_t c = 0; c < bench.contestants.size(); ++c) {
        const double rate =
            TRY(throughput(*bench.contestants[c], bench.works[w], bench.options, seconds));
        bench.figures[w][c].per_second += rate / kRounds;
      }
    }
  }
  return {};
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

json::object machine() {
  utsname name{};
  ::uname(&name);
  double load[3] = {0, 0, 0};
  ::getloadavg(load, 3);
  return {{"kernel", name.release},
          {"cpus", std::thread::hardware_concurrency()},
          {"load", load[0]},
          {"at", base::formatTime(base::wallMicros())}};
}

// One row per work and contestant; the figures' milliseconds are sorted.
json::array rows(const Bench& bench) {
  json::array array;
  for (size_t w = 0; w < bench.works.size(); ++w) {
    const double bare_median = quantile(bench.figures[w][0].millis, 0.5);
    for (size_t c = 0; c < bench.contestants.size(); ++c) {
      const Figures& figures = bench.figures[w][c];
      array.push_back({{"work", bench.works[w].name},
                       {"tool", bench.contestants[c]->name()},
                       {"runs", figures.millis.size()},
                       {"min_ms", figures.millis.front()},
                       {"p50_ms", quantile(figures.millis, 0.5)},
                       {"p90_ms", quantile(figures.millis, 0.9)},
                       {"p99_ms", quantile(figures.millis, 0.99)},
                       {"times_bare", quantile(figures.millis, 0.5) / bare_median},
                       {"runs_per_second", figures.per_second}});
    }
  }
  return array;
}

std::string table(const json::array& rows, const json::object& machine, const Options& options) {
  std::string text = "| work | tool | min ms | p50 ms | p90 ms | p99 ms | × bare | runs/s, " +
                     std::to_string(options.clients) + " clients |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const json::value& value : rows) {
    const json::object& row = value.get_object();
    const auto cell = [&](const char* name, int digits) {
      return " | " + number(row.at(name).as_double(), digits);
    };
    text += "| " + std::string(row.at("work").as_string()) + " | " +
            std::string(row.at("tool").as_string()) + cell("min_ms", 2) + cell("p50_ms", 2) +
            cell("p90_ms", 2) + cell("p99_ms", 2) + cell("times_bare", 2) +
            cell("runs_per_second", 0) + " |\n";
  }
  text += "\n" + std::to_string(options.runs) + " runs of each, interleaved; Linux " +
          std::string(machine.at("kernel").as_string()) + ", " +
          std::to_string(machine.at("cpus").to_number<int>()) + " cores, load " +
          number(machine.at("load").as_double(), 1) + " at the end.\n";
  return text;
}

Result<> writeDocs(const std::string& table) {
  const char* dir = ::getenv("CLOISTER_BENCH_DOCS");
  if (dir == nullptr) return {};
  const std::string path = std::string(dir) + "/BENCHMARKS.md";
  std::string text = TRY(base::readFile(path));
  constexpr std::string_view kBegin = "<!-- bench run -->\n";
  const size_t begin = text.find(kBegin);
  const size_t end = text.find("<!-- end -->", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    return fail(Code::kInvalid, path + ": the markers are missing");
  }
  text.replace(begin + kBegin.size(), end - begin - kBegin.size(), table);
  return base::writeFileAtomic(path, text, 0644);
}

Result<> report(Bench& bench) {
  for (auto& row : bench.figures) {
    for (Figures& figures : row)
      std::ranges::sort(figures.millis);
  }
  const json::object where = machine();
  const json::array figures = rows(bench);
  const std::string text = table(figures, where, bench.options);
  std::fputs(text.c_str(), stdout);
  if (const char* out = ::getenv("CLOISTER_BENCH_OUT"); out != nullptr) {
    const json::object all = {{"machine", where}, {"rows", figures}};
    TRY(base::writeFileAtomic(std::string(out) + "/run.json", base::toJson(all) + "\n", 0644));
  }
  return writeDocs(text);
}

// Whoever cannot run the first work here is left out, and said so.
void enter(Bench& bench, Result<std::unique_ptr<Contestant>> contestant, const char* name) {
  const auto works = [&](Contestant& one) -> Result<> {
    const auto client = TRY(one.client());
    TRY(timed(*client, bench.works[0]));
    return {};
  };
  Result<> tried = contestant ? works(**contestant) : std::unexpected(contestant.error());
  if (tried) {
    bench.contestants.push_back(*std::move(contestant));
  } else {
    std::fprintf(stderr, "left out: %s: %s\n", name, tried.error().message.c_str());
  }
}

Result<> runAll(const Options& options, const std::string& dir) {
  Bench bench{.options = options, .works = allWorks(), .contestants = {}, .figures = {}};
  // The servers first: crun changes what later children see.
  auto cold = cloister(base::programDir(), dir + "/cold", false);
  auto ours = cloister(base::programDir(), dir + "/state", true);
  enter(bench, bare(), "bare");
  enter(bench, bubblewrap(), "bubblewrap");
  enter(bench, crun(dir + "/crun", bench.works), "crun");
  enter(bench, std::move(cold), "cloister, no pool");
  enter(bench, std::move(ours), "cloister");
  if (bench.contestants.empty() || bench.contestants.back()->name() != "cloister") {
    return fail(Code::kUnavailable, "without bare spawn and Cloister there is nothing to compare");
  }
  bench.figures.assign(bench.works.size(), std::vector<Figures>(bench.contestants.size()));
  TRY(measureLatency(bench));
  TRY(measureThroughput(bench));
  return report(bench);
}

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    int* value = name == "--runs"      ? &options.runs
                 : name == "--seconds" ? &options.seconds
                 : name == "--clients" ? &options.clients
                                       : nullptr;
    if (value == nullptr || (*value = std::atoi(argv[i + 1])) < 1) {
      std::fprintf(stderr, "usage: run_bench [--runs N] [--seconds S] [--clients C]\n");
      return 2;
    }
  }
  std::string dir = "/tmp/cloister-bench-XXXXXX";
  if (::mkdtemp(dir.data()) == nullptr) return 1;
  std::filesystem::permissions(dir, std::filesystem::perms(0755));  // the server has its own uid
  const Result<> done = runAll(options, dir);
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  if (!done) std::fprintf(stderr, "run_bench: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}

}  // namespace
}  // namespace cloister::bench

int main(int argc, char** argv) {
  return cloister::bench::main(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "base/clock.h"

namespace cloister::bench {
namespace {

using base::monotonicNow;

// The work done by a client of a load, until `end`.
Load work(Contestant& contestant, const Work& work, base::Monotonic end) {
  Load mine;
  const auto client = contestant.client();
  if (!client) mine = {.failed = 1, .why = client.error().message};
  while (client && monotonicNow() < end) {
    const auto took = timed(**client, work);
    if (took) {
      mine.millis.push_back(*took);
    } else if (mine.failed++ == 0) {
      mine.why = took.error().message;
    }
  }
  return mine;
}

void add(Load& total, const Load& part) {
  total.millis.insert(total.millis.end(), part.millis.begin(), part.millis.end());
  total.failed += part.failed;
  if (total.why.empty()) total.why = part.why;
}

}  // namespace

std::vector<Work> works() {
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
  const auto start = monotonicNow();
  const std::string output = TRY(client.run(work));
  const double took = std::chrono::duration<double, std::milli>(monotonicNow() - start).count();
  if (output != work.output) {
    return fail(Code::kInternal, work.name + ": printed \"" + output + "\"");
  }
  return took;
}

std::unique_ptr<Contestant> enter(Result<std::unique_ptr<Contestant>> contestant, const char* name,
                                  const Work& work) {
  const auto works = [&](Contestant& one) -> Result<> {
    const auto client = TRY(one.client());
    TRY(timed(*client, work));
    return {};
  };
  const Result<> tried = contestant ? works(**contestant) : std::unexpected(contestant.error());
  if (tried) return *std::move(contestant);
  std::fprintf(stderr, "left out: %s: %s\n", name, tried.error().message.c_str());
  return nullptr;
}

Result<> interleave(std::vector<Lane>& lanes, int runs, std::chrono::milliseconds pause) {
  std::vector<std::unique_ptr<Client>> clients;
  for (const Lane& lane : lanes)
    clients.push_back(TRY(lane.contestant->client()));
  constexpr int kWarmUp = 5;
  std::mt19937 random(lanes.size());  // a fixed seed: the same order each time
  std::vector<size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (int run = -kWarmUp; run < runs; ++run) {
    std::ranges::shuffle(order, random);
    for (const size_t at : order) {
      std::this_thread::sleep_for(pause);
      const double took = TRY(timed(*clients[at], *lanes[at].work));
      if (run >= 0) lanes[at].millis.push_back(took);
    }
  }
  for (Lane& lane : lanes)
    std::ranges::sort(lane.millis);
  return {};
}

void addLoad(Load& total, Contestant& contestant, const Work& what, int clients, double seconds) {
  const auto start = monotonicNow();
  const auto end = start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::duration<double>(seconds));
  std::vector<Load> parts(static_cast<size_t>(clients));
  {
    std::vector<std::jthread> threads;
    for (Load& mine : parts)
      threads.emplace_back([&] { mine = work(contestant, what, end); });
  }
  total.seconds += std::chrono::duration<double>(monotonicNow() - start).count();
  for (const Load& part : parts)
    add(total, part);
  std::ranges::sort(total.millis);
}

int inDirectory(const char* name, const std::function<Result<>(const std::string& dir)>& bench) {
  std::string dir = "/tmp/cloister-bench-XXXXXX";
  if (::mkdtemp(dir.data()) == nullptr) {
    std::fprintf(stderr, "%s: cannot make a directory in /tmp\n", name);
    return 1;
  }
  std::filesystem::permissions(dir, std::filesystem::perms(0755));  // the server has its own uid
  const Result<> done = bench(dir);
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  if (!done) std::fprintf(stderr, "%s: %s\n", name, done.error().message.c_str());
  return done ? 0 : 1;
}

bool parseArguments(int argc, char** argv, const std::vector<Argument>& arguments) {
  std::string usage;
  for (const Argument& argument : arguments)
    usage += std::string(" [") + argument.name + " N]";
  for (int i = 1; i < argc; i += 2) {
    const auto found = std::ranges::find_if(arguments, [&](const Argument& argument) {
      return std::string_view(argument.name) == argv[i];
    });
    if (found == arguments.end() || i + 1 == argc || (*found->value = std::atoi(argv[i + 1])) < 1) {
      std::fprintf(stderr, "usage: %s%s\n", argv[0], usage.c_str());
      return false;
    }
  }
  return true;
}

}  // namespace cloister::bench

// SPDX-License-Identifier: Apache-2.0
// The cost of a fresh sandbox: provision (to the runner's first word), a `true`, teardown. The cost
// of a `true` in an existing session's sandbox, beside a bare spawn. And the cost of the default
// workspace on disk (docs/adr/0081) instead of in memory.
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <boost/asio/io_context.hpp>
#include <spawn.h>

#include "sandbox/host/host.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using namespace testbed;
using Clock = std::chrono::steady_clock;

struct Times {
  std::vector<double> provision, exec, teardown;
};

double millis(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

Task<int> once(Runtime& runtime, const model::ExecSpec& spec, Times& times) {
  const auto t0 = Clock::now();
  auto sandbox = co_await runtime.provision(permit());
  if (!sandbox) {
    std::fprintf(stderr, "%s\n", sandbox.error().message.c_str());
    co_return 1;
  }
  const auto t1 = Clock::now();
  Recorder seen;
  auto outcome = co_await (*sandbox)->exec(spec, seen);
  const auto t2 = Clock::now();
  std::ignore = co_await (*sandbox)->teardown();
  const auto t3 = Clock::now();
  if (!outcome || outcome->end != model::End::kExited) std::fprintf(stderr, "not exited\n");
  times.provision.push_back(millis(t0, t1));
  times.exec.push_back(millis(t1, t2));
  times.teardown.push_back(millis(t2, t3));
  co_return 0;
}

void report(const char* what, std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  std::printf("  %-10s min %6.2f  median %6.2f  p90 %6.2f  p99 %6.2f ms\n", what, values.front(),
              values[values.size() / 2], values[values.size() * 9 / 10],
              values[values.size() * 99 / 100]);
}

model::SignedPermit sessionPermit() {
  model::PermitFields fields = wire::decodePermit(permit().encoded).value();
  fields.session_id = "ses_bench";
  return {wire::encodePermit(fields), {}};
}

Task<bool> inSession(Sandbox& session, const model::ExecSpec& spec) {
  Recorder seen;
  auto exec = co_await session.open(sessionPermit(), spec);
  if (!exec) co_return false;
  const auto outcome = co_await (*exec)->run(seen);
  co_return outcome && outcome->end == model::End::kExited;
}

bool spawnBare() {
  char path[] = "/bin/true";
  char* argv[] = {path, nullptr};
  char* envp[] = {nullptr};
  pid_t pid = -1;
  int status = 0;
  return ::posix_spawn(&pid, path, nullptr, nullptr, argv, envp) == 0 &&
         ::waitpid(pid, &status, 0) == pid && status == 0;
}

// Alternates, so that both meet the same load.
int benchSession(int runs) {
  const auto started = startProcessHost(config());
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    return 1;
  }
  boost::asio::io_context io{1};
  const auto runtime = makeProcessRuntime(io.get_executor(), *started);
  auto session = async::runTask(io, runtime->provision(sessionPermit()));
  if (!session) return 1;
  const model::ExecSpec spec = command({"/bin/true"});
  std::vector<double> bare;
  std::vector<double> inside;
  for (int i = 0; i < runs; ++i) {
    const auto t0 = Clock::now();
    if (!spawnBare()) return 1;
    const auto t1 = Clock::now();
    if (!async::runTask(io, inSession(**session, spec))) return 1;
    bare.push_back(millis(t0, t1));
    inside.push_back(millis(t1, Clock::now()));
  }
  std::printf("true, %d times, alternately\n", runs);
  report("spawned", bare);
  report("in session", inside);
  std::ignore = async::runTask(io, (*session)->teardown());
  return 0;
}

// The processor time of this process and its reaped children, such as the keepers of disks.
double processorMillis() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      sum += static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  }
  return sum;
}

struct Place {
  const char* name;
  std::unique_ptr<Runtime> runtime;
  Times times = {};
  std::vector<double> whole = {};
  std::vector<double> processor = {};
};

// The same default run with its workspace in memory and on disk, alternately. A sandbox with a disk
// is not made ahead: `processor` is the time that each run would still take with sandboxes made in
// advance.
int benchDisk(int runs) {
  boost::asio::io_context io{1};
  std::vector<Place> places;
  for (const auto& [name, over] : {std::pair{"in memory", uint64_t{1} << 40}, {"on disk", 0}}) {
    ProcessConfig own = config();
    own.disk.over_bytes = over;
    const auto started = startProcessHost(own);
    if (!started) {
      std::fprintf(stderr, "%s\n", started.error().message.c_str());
      return 1;
    }
    const model::Finding& disks = (*started)->disks()->finding();
    if (disks.state != model::Finding::State::kOk) {
      std::printf("no workspaces on disk here: %s\n", disks.detail.c_str());
      return 0;
    }
    places.push_back({name, makeProcessRuntime(io.get_executor(), *started)});
  }
  const model::ExecSpec spec = command({"/bin/true"});
  for (int i = 0; i < runs; ++i) {
    for (Place& place : places) {
      const auto from = Clock::now();
      const double before = processorMillis();
      if (async::runTask(io, once(*place.runtime, spec, place.times)) != 0) return 1;
      place.processor.push_back(processorMillis() - before);
      place.whole.push_back(millis(from, Clock::now()));
    }
  }
  for (Place& place : places) {
    std::printf("true, %d runs alternately, its workspace %s\n", runs, place.name);
    report("provision", place.times.provision);
    report("exec", place.times.exec);
    report("teardown", place.times.teardown);
    report("whole", place.whole);
    report("processor", place.processor);
  }
  return 0;
}

int bench(int runs, uint32_t ready) {
  ProcessConfig own = config();
  own.ready = ready;
  const auto started = startProcessHost(own);
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    return 1;
  }
  boost::asio::io_context io{1};
  const auto runtime = makeProcessRuntime(io.get_executor(), *started);
  for (const auto& [name, spec] :
       {std::pair{"true", command({"/bin/true"})},
        std::pair{"python3 -c pass", command({"/usr/bin/python3", "-c", "pass"})}}) {
    Times times;
    for (int i = 0; i < runs; ++i) {
      if (async::runTask(io, once(*runtime, spec, times)) != 0) return 1;
    }
    std::printf("%s, %d runs, %u made ahead\n", name, runs, ready);
    report("provision", times.provision);
    report("exec", times.exec);
    report("teardown", times.teardown);
  }
  return 0;
}

}  // namespace
}  // namespace cloister::runtime

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 200;
  int failed = cloister::runtime::benchSession(runs);
  for (const uint32_t ready : {0U, 2U}) {
    if (failed == 0) failed = cloister::runtime::bench(runs, ready);
  }
  if (failed == 0) failed = cloister::runtime::benchDisk(runs);
  return failed;
}

// SPDX-License-Identifier: Apache-2.0
// Tests the view and rights of programs in a real sandbox, and the ends of their runs.
#include "sandbox/process_runtime.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "sandbox/host/host.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using namespace testbed;
using model::End;
using testing::HasSubstr;
using testing::Not;

class ProcessRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!host()) GTEST_SKIP() << host().error().message;
    runtime_ = makeProcessRuntime(io_.get_executor(), *host());
  }

  void TearDown() override {
    if (host()) EXPECT_EQ(left(), 0U);
  }

  Task<Result<model::Outcome>> runOnce(const model::ExecSpec& spec, model::Limits limits) {
    auto sandbox = CO_TRY(co_await runtime_->provision(permit(limits)));
    if (on_sandbox_) on_sandbox_(*sandbox);
    auto outcome = co_await sandbox->exec(spec, seen_);
    CO_TRY(co_await sandbox->teardown());
    co_return outcome;
  }

  // Runs a program in a separate sandbox. seen_ receives its output.
  model::Outcome run(const model::ExecSpec& spec, model::Limits limits = {}) {
    seen_.out.clear();
    seen_.err.clear();
    seen_.files.clear();
    seen_.started = false;
    auto outcome = async::runTask(io_, runOnce(spec, limits));
    if (!outcome) {
      ADD_FAILURE() << outcome.error().message;
      return {};
    }
    return *std::move(outcome);
  }

  // The output of a shell script.
  std::string output(const std::string& script, model::Limits limits = {}) {
    const auto outcome = run(shell(script + " 2>&1"), limits);
    EXPECT_EQ(outcome.end, End::kExited) << outcome.message;
    return seen_.out;
  }

  static const model::LimitHit* hit(const model::Outcome& outcome, std::string_view limit) {
    const auto found = std::ranges::find(outcome.limits, limit, &model::LimitHit::limit);
    return found == outcome.limits.end() ? nullptr : &*found;
  }

  [[nodiscard]] static bool hasCgroups() { return hasGroups(**host()); }

  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
  Recorder seen_;
  std::function<void(Sandbox&)> on_sandbox_;
};

TEST_F(ProcessRuntimeTest, ProgramsRunUnprivileged) {
  const std::string status = output("cat /proc/self/status");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_THAT(status, HasSubstr(std::string(set) + ":\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
  EXPECT_THAT(status, HasSubstr("Uid:\t1000\t1000\t1000\t1000"));
  EXPECT_THAT(status, HasSubstr("Gid:\t1000\t1000\t1000\t1000"));
}

TEST_F(ProcessRuntimeTest, CopiedFilesKeepTheirTimes) {
  struct stat status{};
  ASSERT_EQ(::stat("/etc/ld.so.cache", &status), 0);
  EXPECT_EQ(output("stat -c %Y /etc/ld.so.cache"), std::to_string(status.st_mtime) + "\n");
}

TEST_F(ProcessRuntimeTest, CoreDumpsStayOff) {
  // With a limit of 0 the kernel would start the host's core_pattern program: core(5).
  EXPECT_EQ(
      output("ulimit -Sc 0 2>/dev/null || echo refused; cat /proc/self/limits | grep core"),
      "refused\nMax core file size        1                    1                    bytes     \n");
}

TEST_F(ProcessRuntimeTest, RootAndHostIdsAreNotMapped) {
  std::istringstream map(output("cat /proc/self/uid_map"));
  uint32_t inside = 0;
  uint32_t outside = 0;
  uint32_t count = 0;
  map >> inside >> outside >> count;
  EXPECT_EQ(inside, 1000U);
  EXPECT_GT(count, 0U);
  std::string rest;
  EXPECT_FALSE(map >> rest) << "more than one range: " << rest;
}

TEST_F(ProcessRuntimeTest, NoDescriptorIsLeaked) {
  EXPECT_EQ(output("ls /proc/self/fd; readlink /proc/$$/fd/* | grep -v pipe: | sort -u"),
            "0\n1\n2\n3\n/dev/null\n");  // 3 is the directory read by ls
}

TEST_F(ProcessRuntimeTest, MountsNameNothingOfTheHost) {
  for (const std::string& weak : (*host())->weakened()) {
    if (weak.contains("overlayfs")) GTEST_SKIP() << weak;
  }
  std::istringstream lines(output("cat /proc/self/mountinfo"));
  const std::vector<std::string> types = {"tmpfs", "overlay", "proc", "devpts"};
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::istringstream words(line.substr(line.find(" - ") + 3));
    std::string type;
    std::string source;
    words >> type >> source;
    if (type == "devtmpfs" && ::geteuid() != 0) continue;  // device files of the host, bound
    EXPECT_THAT(types, testing::Contains(type)) << line;
    EXPECT_EQ(source, type) << line;
  }
  EXPECT_GT(count, 5U);
}

TEST_F(ProcessRuntimeTest, NothingButScratchCanBeWritten) {
  const std::string said = output(
      "for d in / /usr /usr/bin /etc /dev /run /var /proc /proc/sys/kernel; do "
      "touch $d/x && echo wrote $d; done; "
      "for d in /workspace /tmp /dev/shm /var/tmp; do touch $d/x || echo cannot $d; done");
  EXPECT_THAT(said, Not(HasSubstr("wrote")));
  EXPECT_THAT(said, Not(HasSubstr("cannot /")));
}

TEST_F(ProcessRuntimeTest, ProcShowsOnlyItsOwn) {
  EXPECT_EQ(output("ls /proc | grep '^[0-9]*$' | sort -n | head -1"), "1\n");
  EXPECT_THAT(output("cat /proc/kallsyms /proc/keys /proc/cmdline /proc/interrupts /proc/vmstat "
                     "/proc/diskstats /proc/partitions; ls /proc/fs /proc/bus /proc/irq"),
              Not(HasSubstr(" 0")));
  EXPECT_EQ(output("cat /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern "
                   "/proc/sys/kernel/random/boot_id | grep -vc 'No such'"),
            "0\n");
  EXPECT_THAT(output("grep -c processor /proc/cpuinfo; cat /proc/uptime"),
              Not(HasSubstr("denied")));
}

TEST_F(ProcessRuntimeTest, TheHostCannotBeSeen) {
  EXPECT_EQ(output("uname -n; id -u; pwd; ls -A"), "cloister\n1000\n/workspace\n");
  EXPECT_EQ(output("ls -d /sys /root /opt /srv /boot /var/lib 2>/dev/null; ls -A /home"), "user\n");
  EXPECT_EQ(output("cat /proc/self/cgroup | cut -d: -f3 | sort -u"), "/\n");
  EXPECT_EQ(output("ls /dev | tr '\\n' ' '"),
            "fd full null ptmx pts random shm stderr stdin stdout urandom zero ");
}

TEST_F(ProcessRuntimeTest, NoNetworkButItsOwnLoopback) {
  const std::string said = output(
      "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '; "
      "python3 -c 'import socket as s\n"
      "a=s.socket(); a.bind((\"127.0.0.1\",0)); a.listen(); "
      "b=s.create_connection(a.getsockname())\n"
      "print(\"loopback\")\n"
      "try:\n s.create_connection((\"198.51.100.10\",80),2)\n"
      "except OSError as e: print(e.errno)'");
  EXPECT_EQ(said, "lo\nloopback\n101\n");  // ENETUNREACH
}

TEST_F(ProcessRuntimeTest, ResourceLimitsArriveInside) {
  model::Limits limits;
  limits.open_files = 77;
  limits.file_bytes = 512 * 1024;
  EXPECT_EQ(output("ulimit -n; ulimit -f", limits), "77\n1024\n");  // in blocks of 512 bytes
}

TEST_F(ProcessRuntimeTest, ADaemonDoesNotOutliveTheProgram) {
  const auto outcome = run(shell("setsid sh -c 'exec >/dev/null 2>&1; sleep 600' & exit 0"));
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_LT(outcome.usage.wall_ms, 5000);
}

TEST_F(ProcessRuntimeTest, AProgramThatStopsItselfEndsAtItsWallTime) {
  model::Limits limits;
  limits.wall = Millis{500};
  const auto outcome = run(shell("trap '' TERM INT HUP; echo begun; kill -STOP $$"), limits);
  EXPECT_EQ(outcome.end, End::kTimedOut);
  EXPECT_EQ(seen_.out, "begun\n");
}

TEST_F(ProcessRuntimeTest, AForkBombMeetsItsLimit) {
  model::Limits limits;
  limits.wall = Millis{2000};
  limits.pids = 32;
  const auto outcome = run(command({"bash", "-c", ":(){ :|:& };: ; sleep 60"}), limits);
  if (hasCgroups()) {
    const auto* pids = hit(outcome, model::limit_name::kPids);
    ASSERT_NE(pids, nullptr);
    EXPECT_EQ(pids->value, 32U);
  }
  EXPECT_LE(outcome.usage.processes.value_or(0), 32U);
}

TEST_F(ProcessRuntimeTest, MemoryInFilesCounts) {
  model::Limits limits;
  limits.memory_bytes = uint64_t{32} << 20;
  limits.wall = Millis{20'000};
  // Three quarters at most go to files; the rest of the memory then does not suffice.
  const auto outcome = run(
      shell(
          "head -c 40000000 /dev/zero > /dev/shm/x; head -c 40000000 /dev/zero | tail -c 30000000"),
      limits);
  if (!hasCgroups()) GTEST_SKIP() << "needs a cgroup";
  EXPECT_EQ(outcome.end, End::kLimit);
  ASSERT_NE(hit(outcome, model::limit_name::kMemory), nullptr);
}

TEST_F(ProcessRuntimeTest, AFileOverItsSizeEndsTheProgram) {
  model::Limits limits;
  limits.file_bytes = 1 << 20;
  const auto outcome =
      run(command({"dd", "if=/dev/zero", "of=big", "bs=65536", "count=64"}), limits);
  EXPECT_EQ(outcome.end, End::kLimit);
  ASSERT_NE(hit(outcome, model::limit_name::kFileSize), nullptr);
  EXPECT_EQ(hit(outcome, model::limit_name::kFileSize)->used, limits.file_bytes);
}

TEST_F(ProcessRuntimeTest, ASignalAloneIsNoLimit) {
  const auto cpu = run(shell("kill -XCPU $$"));
  EXPECT_EQ(cpu.end, End::kSignaled);
  EXPECT_EQ(cpu.signal, SIGXCPU);
  EXPECT_TRUE(cpu.limits.empty());
  const auto size = run(shell("kill -XFSZ $$"));
  ASSERT_NE(hit(size, model::limit_name::kFileSize), nullptr);
  EXPECT_TRUE(hit(size, model::limit_name::kFileSize)->isProbable());
}

TEST_F(ProcessRuntimeTest, InodesAreBounded) {
  model::Limits limits;
  limits.inodes = 200;
  const auto outcome =
      run(shell("i=0; while [ $i -lt 400 ]; do : > f$i || exit 5; i=$((i+1)); done"), limits);
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(hit(outcome, model::limit_name::kInodes), nullptr);
}

TEST_F(ProcessRuntimeTest, LongInputIsFedAsItIsRead) {
  std::string input(3 << 20, 'i');
  const auto outcome = run(shell("sleep 0.2; wc -c", input));
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(seen_.out, std::to_string(input.size()) + "\n");
}

TEST_F(ProcessRuntimeTest, InputThatNobodyReadsIsNoHindrance) {
  const auto outcome = run(shell("exit 4", std::string(3 << 20, 'i')));
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.exit_code, 4);
}

TEST_F(ProcessRuntimeTest, CompilesFirst) {
  auto spec = shell("cat built -", "input\n");
  spec.compile = {{{"/bin/sh", "-c", "echo note >&2; echo made > built"}, Millis{5000}}};
  const auto outcome = run(spec);
  EXPECT_EQ(outcome.end, End::kExited);
  ASSERT_TRUE(outcome.compile);
  EXPECT_EQ(outcome.compile->stderr_text, "note\n");
  EXPECT_FALSE(outcome.compile_failed);
  EXPECT_EQ(seen_.out, "made\ninput\n");
}

TEST_F(ProcessRuntimeTest, AFailedCompilerEndsTheRun) {
  auto spec = shell("echo never");
  spec.compile = {{{"/bin/sh", "-c", "echo wrong >&2; exit 9"}, Millis{5000}}};
  const auto outcome = run(spec);
  EXPECT_TRUE(outcome.compile_failed);
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.exit_code, 9);
  EXPECT_EQ(outcome.compile->stderr_text, "wrong\n");
  EXPECT_EQ(seen_.out, "");
  EXPECT_FALSE(seen_.started);
}

TEST_F(ProcessRuntimeTest, TwoSandboxesShareNothing) {
  const auto body = [&]() -> Task<Result<int>> {
    auto a = CO_TRY(co_await runtime_->provision(permit()));
    auto b = CO_TRY(co_await runtime_->provision(permit()));
    Recorder in_a;
    Recorder in_b;
    std::ignore = CO_TRY(co_await a->exec(
        shell("touch /tmp/mark /dev/shm/mark mark; cat /proc/self/uid_map"), in_a));
    std::ignore = CO_TRY(co_await b->exec(
        shell("ls /tmp /dev/shm /workspace | grep mark; cat /proc/self/uid_map"), in_b));
    CO_TRY(co_await a->teardown());
    CO_TRY(co_await b->teardown());
    EXPECT_THAT(in_b.out, Not(HasSubstr("mark")));
    if (::geteuid() == 0) EXPECT_NE(in_a.out, in_b.out) << "the same host uid";
    co_return 0;
  };
  const auto done = async::runTask(io_, body());
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(ProcessRuntimeTest, ASandboxThatIsNotTornDownIsKilled) {
  const auto body = [&]() -> Task<Result<int>> {
    std::ignore = CO_TRY(co_await runtime_->provision(permit()));
    boost::asio::steady_timer pause(io_);
    for (int i = 0; i < 500 && slotsInUse(**host()) > 0; ++i) {
      pause.expires_after(Millis{10});
      co_await pause.async_wait(boost::asio::use_awaitable);
    }
    co_return 0;
  };
  EXPECT_TRUE(async::runTask(io_, body()));
  EXPECT_EQ(slotsInUse(**host()), 0U);
}

TEST_F(ProcessRuntimeTest, ADeadRunnerIsSaid) {
  seen_.on_started = [] { ::kill(childrenOf(childrenOf(::getpid()).front()).front(), SIGKILL); };
  const auto outcome = run(shell("echo begun; sleep 60"));
  seen_.on_started = nullptr;
  EXPECT_EQ(outcome.end, End::kRunnerLost);
  EXPECT_EQ(outcome.message, "the runner died");
}

TEST_F(ProcessRuntimeTest, ADeadSpawnerTakesItsSandboxesAndIsReplaced) {
  seen_.on_started = [] { ::kill(childrenOf(::getpid()).front(), SIGKILL); };
  const auto outcome = run(shell("sleep 60"));
  seen_.on_started = nullptr;
  EXPECT_EQ(outcome.end, End::kRunnerLost);
  EXPECT_EQ(output("echo alive"), "alive\n");
}

TEST_F(ProcessRuntimeTest, CancelledBeforeItBegins) {
  on_sandbox_ = [](Sandbox& sandbox) { sandbox.cancel(); };
  const auto outcome = run(shell("echo never"));
  on_sandbox_ = nullptr;
  EXPECT_EQ(outcome.end, End::kCancelled);
  EXPECT_EQ(seen_.out, "");
}

TEST_F(ProcessRuntimeTest, RefusesRuntimesAndNetworksItHasNot) {
  for (const bool network : {false, true}) {
    auto fields = wire::decodePermit(permit().encoded);
    ASSERT_TRUE(fields);
    (network ? fields->network_tier : fields->runtime) = "other";
    const auto sandbox =
        async::runTask(io_, runtime_->provision({wire::encodePermit(*fields), {}}));
    ASSERT_FALSE(sandbox);
    EXPECT_EQ(sandbox.error().code, Code::kUnsupported);
  }
}

TEST_F(ProcessRuntimeTest, APlanSaysEverythingThatIsApplied) {
  const auto plan = async::runTask(io_, runtime_->plan(permit()));
  ASSERT_TRUE(plan) << plan.error().message;
  for (const char* part : {"namespaces", "ids", "root", "mounts", "rlimits", "cgroup", "landlock",
                           "seccomp", "weakened", "image_digest"}) {
    EXPECT_TRUE(plan->contains(part)) << part;
  }
  const std::string text = base::toJson(*plan);
  EXPECT_THAT(text, HasSubstr(R"("target":"/workspace")"));
  EXPECT_THAT(text, HasSubstr("RLIMIT_NOFILE"));
}

TEST_F(ProcessRuntimeTest, SaysWhenAllSandboxesAreInUse) {
  const auto body = [&]() -> Task<Result<int>> {
    std::vector<std::unique_ptr<Sandbox>> held;
    for (uint32_t i = 0; i < config().max_sandboxes; ++i)
      held.push_back(CO_TRY(co_await runtime_->provision(permit())));
    const auto more = co_await runtime_->provision(permit());
    EXPECT_FALSE(more);
    if (!more) EXPECT_EQ(more.error().code, Code::kUnavailable);
    for (const auto& sandbox : held)
      CO_TRY(co_await sandbox->teardown());
    co_return 0;
  };
  const auto done = async::runTask(io_, body());
  EXPECT_TRUE(done) << done.error().message;
}

}  // namespace
}  // namespace cloister::runtime

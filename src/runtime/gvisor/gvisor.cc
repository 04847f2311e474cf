// SPDX-License-Identifier: Apache-2.0
#include "runtime/gvisor/gvisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "linux/message.h"
#include "linux/process.h"
#include "runtime/gvisor/bundle.h"

namespace cloister::runtime {
namespace {

using State = model::Finding::State;

constexpr auto kPatience = std::chrono::seconds(5);
constexpr size_t kMaxVersion = 256;
// gVisor's own threads, and what each of the program's takes on the host: one that runs it, one
// that it runs on, and as many again while its memory is set up.
constexpr uint32_t kOwnThreads = 256;
constexpr uint32_t kThreadsEach = 4;

class Gvisor final : public Guest {
 public:
  Gvisor(GvisorConfig config, std::string version, Fd program)
      : config_(std::move(config)), version_(std::move(version)), program_(std::move(program)) {}

  [[nodiscard]] std::string name() const override { return "gvisor"; }
  [[nodiscard]] uint32_t ready() const override { return config_.ready; }
  [[nodiscard]] std::vector<std::string> weakened() const override {
    return {"files have no limit of their number but memory",
            "the disk limit is of /workspace, /tmp and /dev/shm each, all within the memory limit",
            "processes are refused at their limit without a word in the result",
            "a program can end its runner, and with it its run or session, which then says so"};
  }
  [[nodiscard]] model::Finding finding() const override {
    return {"runtime", name(), State::kOk, version_ + ", systrap", ""};
  }

  void adjust(const model::Limits& limits, SandboxSpec& spec,
              linux::CgroupLimits& cgroup) const override {
    cgroup.memory_bytes += config_.overhead_bytes;
    cgroup.pids = kOwnThreads + kThreadsEach * cgroup.pids;
    // The guest kernel counts processes by the limit of each; the runner's own is one of them.
    if (spec.limit_count < SandboxSpec::kMaxLimits) {
      spec.limits[spec.limit_count++] = {RLIMIT_NPROC, uint64_t{limits.pids} + 1};
    }
  }

  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& spec) const override {
    std::vector<Fd> fds;
    fds.push_back(TRY(linux::sealedData(base::toJson(gvisor::makeBundle(spec)))));
    fds.emplace_back(::fcntl(program_.get(), F_DUPFD_CLOEXEC, 0));
    if (!fds.back()) return failErrno("keeping runsc");
    return fds;
  }

  void describe(const SandboxSpec& spec, base::json::object& plan) const override {
    base::json::array argv;
    for (const std::string& argument : gvisor::command(false))
      argv.emplace_back(argument);
    plan["gvisor"] = {{"version", version_},
                      {"platform", "systrap"},
                      {"command", std::move(argv)},
                      {"bundle", gvisor::makeBundle(spec)}};
  }

 private:
  const GvisorConfig config_;
  const std::string version_;
  const Fd program_;
};

// What `program --version` writes, up to a bound; "" where it does not in time.
std::string askVersion(int program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd out(ends[0]);
  Fd in(ends[1]);
  auto child = linux::cloneProcess(0);
  if (!child) return {};
  if (child->pid == 0) {
    std::ignore = linux::dieWithParent();
    std::ignore = linux::moveFd(in.get(), STDOUT_FILENO);
    std::ignore = linux::executeFd(program, {"runsc", "--version"}, {});
    ::_exit(127);
  }
  in.reset();
  std::string text;
  const auto until = base::monotonicNow() + kPatience;
  for (bool more = true; more && text.size() < kMaxVersion;) {
    const auto left = std::chrono::duration_cast<Millis>(until - base::monotonicNow()).count();
    pollfd ready{out.get(), POLLIN, 0};
    std::array<char, kMaxVersion> bytes;
    more = left > 0 && ::poll(&ready, 1, static_cast<int>(left)) == 1;
    const ssize_t n = more ? ::read(out.get(), bytes.data(), bytes.size()) : 0;
    more = n > 0;
    if (more) text.append(bytes.data(), static_cast<size_t>(n));
  }
  std::ignore = linux::signalPidfd(child->pidfd.get(), SIGKILL);
  std::ignore = linux::reapPidfd(child->pidfd.get());
  return text;
}

// "runsc version release-20240729.0\nspec: 1.1.0\n" → "runsc release-20240729.0"; "" if it is not.
std::string versionIn(std::string_view text) {
  constexpr std::string_view kBefore = "runsc version ";
  if (!text.starts_with(kBefore)) return {};
  const std::string_view rest = text.substr(kBefore.size());
  const std::string version(rest.substr(0, rest.find('\n')));
  for (const char c : version) {
    if (c <= ' ' || c > '~') return {};
  }
  return version.empty() ? std::string() : "runsc " + version;
}

GvisorFound lacks(std::string detail, std::string remedy) {
  return {nullptr, {"runtime", "gvisor", State::kMissing, std::move(detail), std::move(remedy)}};
}

}  // namespace

GvisorFound findGvisor(const GvisorConfig& config) {
  if (config.runsc.empty()) return lacks("turned off", "set gvisor.runsc in the configuration");
  Fd program(::open(config.runsc.c_str(), O_RDONLY | O_CLOEXEC));
  if (!program) {
    return lacks(base::errnoError("opening " + config.runsc, errno).message,
                 "install runsc (Debian: from backports), or set gvisor.runsc, and start anew");
  }
  std::string version = versionIn(askVersion(program.get()));
  if (version.empty()) {
    return lacks(config.runsc + " --version says nothing that is gVisor's",
                 "install runsc anew, or set gvisor.runsc to where it is");
  }
  auto guest = std::make_shared<const Gvisor>(config, std::move(version), std::move(program));
  return {guest, guest->finding()};
}

}  // namespace cloister::runtime

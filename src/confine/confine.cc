// SPDX-License-Identifier: Apache-2.0
#include "confine/confine.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "confine/spawn_loop.h"
#include "linux/network.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::runtime {
namespace {

constexpr int kProgramFd = wire::kRunnerFd + 1;
constexpr std::string_view kHostname = "cloister";

// Joining comes first, so that all costs of this process are charged to the sandbox.
Result<> joinCgroups(const std::vector<Fd>& tasks) {
  for (const Fd& file : tasks) {
    if (::write(file.get(), "0", 1) != 1) return failErrno("joining a cgroup");
  }
  return {};
}

// Limits of inotify(7) for each sandbox. The kernel also counts instances for the owner of the user
// namespace, and allows few: 128 by default. The owner is the sandbox's own user; for copies of a
// zygote the owner is the zygote's user. A rootless node's sandboxes all share the owner.
constexpr std::pair<const char*, std::string_view> kWatchLimits[] = {
    {"proc/sys/user/max_inotify_instances", "16"}, {"proc/sys/user/max_inotify_watches", "8192"}};

// Writes to the /proc mounted by this process: /proc/sys/user shows the user namespace of the
// reader.
Result<> limitWatches() {
  for (const auto& [file, most] : kWatchLimits) {
    const Fd limit(::open(file, O_WRONLY | O_CLOEXEC));
    if (!limit && errno == ENOENT) return {};  // a kernel without
    if (!limit || ::write(limit.get(), most.data(), most.size()) < 0) {
      return failErrno(std::string("limiting watches: ") + file);
    }
  }
  return {};
}

Result<> applySteps(const std::vector<MountStep>& steps) {
  for (const MountStep& step : steps)
    TRY(applyStep(step));
  return {};
}

// The terminal, signal dispositions and mask of whoever started the node are not for the sandbox.
Result<> startSession() {
  ::setsid();
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return failErrno("sigprocmask");
  ::umask(022);
  return {};
}

// From here on the node hears of a failure.
Result<> connectRunner(const Fd& socket) {
  return linux::moveFd(socket.get(), wire::kRunnerFd);
}

// Moves the descriptors away from the numbers about to be assigned.
Result<std::vector<Fd>> setAside(const std::vector<Fd>& fds) {
  constexpr int kAside = 64;
  std::vector<Fd> aside;
  for (const Fd& fd : fds) {
    aside.emplace_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kAside));
    if (!aside.back()) return failErrno("keeping a descriptor");
  }
  return aside;
}

// Its own number is free again before others are given.
Result<> arrangeStandard(const Fd& output) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return failErrno("opening /dev/null");
  for (int fd = 0; fd < 3; ++fd)
    TRY(linux::moveFd(null.get(), fd));
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (output) TRY(linux::moveFd(output.get(), fd));
  }
  return {};
}

// 0, 1 and 2 are the sandbox's own /dev/null, 3 the runner's socket, 4 the runner until execution,
// then the kept descriptors. The spawner keeps the first of these numbers unused.
Result<> arrangeFds(const Confinement& confinement, const ConfineFds& fds) {
  TRY(arrangeStandard(fds.output));
  TRY(linux::moveFd(confinement.runner.get(), kProgramFd));
  if (::fcntl(kProgramFd, F_SETFD, FD_CLOEXEC) != 0) return failErrno("fcntl F_SETFD");
  const std::vector<Fd> aside = TRY(setAside(fds.kept));
  int next = kKeptFd;
  for (const Fd& fd : aside)
    TRY(linux::moveFd(fd.get(), next++));
  return linux::closeFrom(static_cast<unsigned>(next));
}

Result<> limitResources(const SandboxSpec& spec) {
  if (spec.nice != 0 && ::setpriority(PRIO_PROCESS, 0, spec.nice) != 0) {
    return failErrno("setpriority");
  }
  // The runner lives as long as a session and must not end at the processor time of a single
  // program: each program turns the soft limit into its hard limit.
  for (const linux::ResourceLimit& limit : std::span(spec.limits).first(spec.limit_count))
    TRY(limit.resource == RLIMIT_CPU ? linux::setSoftLimit(limit) : linux::setResourceLimit(limit));
  return {};
}

// A frame like the runner's own.
void report(const Error& error) {
  char frame[wire::kHeaderBytes + 1024];
  wire::Writer payload(frame + wire::kHeaderBytes, sizeof frame - wire::kHeaderBytes);
  payload.u32(0);
  payload.bytes(std::string_view(error.message).substr(0, 1000));
  const auto size = static_cast<uint32_t>(payload.view().size());
  wire::encodeHeader(frame, static_cast<uint16_t>(wire::FromRunner::kStartFailed), 0, size);
  std::ignore = ::write(wire::kRunnerFd, frame, wire::kHeaderBytes + size);
}

}  // namespace

std::vector<MountStep> scratchStepsOf(const SandboxSpec& spec, int disk, int workspace) {
  if (spec.on_disk) return diskSteps(disk);
  auto steps =
      scratchSteps(spec.scratch_bytes, spec.scratch_inodes, spec.runs_own ? 0 : linux::kNoExec);
  if (spec.shares) steps.push_back(sharedStep(workspace));
  return steps;
}

uint64_t sandboxNamespaces() {
  return CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
}

std::vector<std::string> namespaceNames() {
  return {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};
}

std::vector<linux::LandlockRule> landlockRules() {
  using enum linux::LandlockAccess;
  std::vector<linux::LandlockRule> rules = {{"/", kReadExecute}};
  for (const std::string_view path : model::kWritablePlaces)
    rules.push_back({path.data(), kScratch});
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    rules.push_back({path, kWriteDevice});
  rules.push_back({"/dev/pts", kTerminal});
  return rules;
}

Result<> confineSelf(const Confinement& confinement, const SandboxSpec& spec, const ConfineFds& fds,
                     WallsStep put_up) {
  TRY(connectRunner(fds.runner_socket));
  if (::chdir("/") != 0) return failErrno("entering /");  // steps are relative
  TRY(joinCgroups(fds.cgroups));
  TRY(linux::unshareNamespaces(CLONE_NEWCGROUP));
  TRY(linux::nameHost(kHostname));
  TRY(startSession());
  TRY(limitWatches());
  TRY(applySteps(confinement.root));
  TRY(waitForIdMaps(fds.mapped));
  TRY(linux::becomeUser(spec.ids.inside, spec.ids.inside));
  TRY(applySteps(shareSteps(spec.shown_memory, spec.shown_cpus)));
  TRY(applySteps(scratchStepsOf(spec, fds.disk.get(), fds.workspace.get())));
  if (spec.walled) TRY(put_up(fds.walls.get()));
  TRY(arrangeFds(confinement, fds));
  TRY(limitResources(spec));
  TRY(linux::limitProcessors(spec.shown_cpus, spec.first_cpu));
  TRY(linux::dropCapabilities());
  TRY(linux::setNoNewPrivs());
  TRY(linux::restrictWithLandlock(confinement.landlock_abi, confinement.landlock));
  return linux::installSeccomp(confinement.filter);
}

void becomeRunner(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "cloister-runner");
  refuseToStart(linux::executeFd(kProgramFd, arguments, {}));
}

std::vector<std::string> runnerArguments(const SandboxSpec& spec) {
  if (spec.writes == model::Walls::Writes::kAll) return {};
  return {wire::kWritesFlag, std::string(model::writesName(spec.writes))};
}

void refuseToStart(const Error& error) {
  report(error);
  ::_exit(1);
}

}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <tuple>

#include "linux/credentials.h"
#include "linux/message.h"
#include "linux/process.h"
#include "runtime/gvisor/become_gvisor.h"
#include "runtime/microvm/become_microvm.h"
#include "runtime/process/apply_walls.h"
#include "runtime/process/become_zygote.h"

namespace cloister::runtime {
namespace {

// 0 to 4 are what confine() fills; the spawner's own come after.
constexpr int kControlFd = 5;
constexpr int kProgramFd = 6;

// One that was killed because it hung may take this long to end before it is left behind.
constexpr int kReapMillis = 1000;

std::string_view bytesOf(const SpawnRequest& request) {
  return {reinterpret_cast<const char*>(&request), sizeof request};
}

// The copy of the node keeps nothing of it but the control socket and the runner.
void keepOnly(SpawnerPlan& plan, const Fd& control) {
  Fd& runner = plan.confinement.runner;
  const int socket = ::fcntl(control.get(), F_DUPFD_CLOEXEC, 64);
  const int program = ::fcntl(runner.get(), F_DUPFD_CLOEXEC, 64);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  bool kept = socket >= 0 && program >= 0 && null >= 0;
  for (int fd = 0; fd < kControlFd; ++fd)
    kept = kept && (fd == null || ::dup3(null, fd, O_CLOEXEC) >= 0);
  kept = kept && ::dup3(socket, kControlFd, O_CLOEXEC) >= 0;
  kept = kept && ::dup3(program, kProgramFd, O_CLOEXEC) >= 0;
  if (!kept || !linux::closeFrom(kProgramFd + 1)) {
    const auto why = failErrno(null < 0 ? "opening /dev/null" : "keeping its descriptors");
    std::ignore = linux::sendMessage(socket, why.error().message);
    ::_exit(1);
  }
  std::ignore = runner.release();  // closed, or one of those replaced
  runner.reset(kProgramFd);
}

Result<> buildRoot(const std::vector<MountStep>& steps) {
  TRY(linux::makePrivate());
  // The root is put together on top of /proc: it exists everywhere, and no step needs it.
  if (::chdir("/proc") != 0) return failErrno("entering /proc");
  for (const MountStep& step : steps) {
    auto applied = applyStep(step);
    if (!applied) return std::unexpected(std::move(applied).error().within("building the root"));
  }
  return linux::pivotHere();
}

// What of the node a process keeps when it is only forked.
void resetProcess() {
  ::setsid();
  ::umask(022);
  linux::askForSlice({});
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, SIG_DFL);
  ::signal(SIGCHLD, SIG_IGN);  // nobody waits: the node watches by pidfd
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

struct Owner {
  uid_t uid;
  gid_t gid;
};

Result<> prepare(const SpawnerPlan& plan, Owner owner) {
  if (plan.rootless) TRY(linux::mapSelf(0, owner.uid, owner.gid));
  TRY(linux::dieWithParent());
  resetProcess();
  return buildRoot(plan.root);
}

Result<> putUpWalls(int fd) {
  return applyWalls(TRY(readWalls(fd)), "/");
}

[[noreturn]] void runSpawner(SpawnerPlan& plan, Owner owner, const Fd& control) {
  keepOnly(plan, control);
  const auto ready = prepare(plan, owner);
  const std::string text = ready ? std::string(kDone) : ready.error().message.substr(0, kMaxAnswer);
  if (!linux::sendMessage(kControlFd, text) || !ready) ::_exit(1);
  Birth birth = serveSpawns(kControlFd);
  if (birth.request.what == SpawnRequest::What::kZygote) becomeZygote(plan.confinement, birth);
  if (birth.request.what == SpawnRequest::What::kGvisor) becomeGvisor(plan.confinement, birth);
  if (birth.request.what == SpawnRequest::What::kMicrovm) becomeMicrovm(plan.confinement, birth);
  const ConfineFds fds = confineFds(birth);
  const auto confined = confineSelf(plan.confinement, birth.request.spec, fds, putUpWalls);
  if (!confined) refuseToStart(confined.error());
  becomeRunner(runnerArguments(birth.request.spec));
}

}  // namespace

Result<std::unique_ptr<Spawner>> Spawner::start(SpawnerPlan& plan) {
  auto [ours, theirs] = TRY(linux::socketPair(SOCK_SEQPACKET));
  const Owner owner{::geteuid(), ::getegid()};
  const uint64_t flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                         (plan.rootless ? CLONE_NEWUSER : 0);
  auto child = linux::cloneProcess(flags);
  if (!child) return std::unexpected(std::move(child).error().within("starting the spawner"));
  if (child->pid == 0) runSpawner(plan, owner, theirs);
  theirs.reset();
  auto spawner = std::make_unique<Spawner>(std::move(ours), std::move(child->pidfd));
  if (auto ready = spawner->ready(); !ready) {
    return std::unexpected(std::move(ready).error().within("starting the spawner"));
  }
  if (::fcntl(spawner->socket(), F_SETFL, O_NONBLOCK) != 0) return failErrno("fcntl O_NONBLOCK");
  return spawner;
}

Result<> Spawner::ready() {
  std::array<char, kMaxAnswer + 1> text{};
  const auto message = TRY(linux::receiveMessage(socket_.get(), text));
  const std::string_view said(text.data(), message.size);
  if (said == kDone) return {};
  alive_ = false;
  return fail(Code::kUnsupported, std::string(said.empty() ? "it died" : said));
}

void Spawner::kill() {
  std::ignore = linux::signalPidfd(pidfd_.get(), SIGKILL);
}

Result<> Spawner::giveUp() {
  kill();
  alive_ = false;
  given_up_ = true;
  return fail(Code::kInternal, "spawning: the spawner did not answer");
}

Spawner::~Spawner() {
  kill();
  // The node must not hang with it where the kernel does not let go of it.
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (given_up_ && ::poll(&ended, 1, kReapMillis) != 1) return;
  // A zygote is the spawner's child, and reaped there.
  std::ignore = linux::reapPidfd(pidfd_.get());
}

Result<> Spawner::request(const SpawnRequest& request, std::span<const int> fds) {
  if (!alive_) return fail(Code::kInternal, "spawning: the spawner died");
  auto sent = linux::sendMessage(socket_.get(), bytesOf(request), fds);
  if (sent || sent.error().code == Code::kUnavailable) return sent;
  alive_ = false;
  return fail(Code::kInternal, "spawning: the spawner died: " + sent.error().message);
}

Result<Fd> Spawner::answer() {
  if (!alive_) return fail(Code::kInternal, "spawning: the spawner died");
  std::array<char, kMaxAnswer + 1> text{};
  auto message = linux::receiveMessage(socket_.get(), text);
  if (!message && message.error().code == Code::kUnavailable) {
    return std::unexpected(std::move(message).error());
  }
  if (!message || message->size == 0) {
    alive_ = false;
    return fail(Code::kInternal, "spawning: the spawner died");
  }
  const std::string_view said(text.data(), message->size);
  if (said == kDone && message->fds.size() == 1) return std::move(message->fds.front());
  return fail(Code::kInternal, "spawning: " + std::string(said));
}

}  // namespace cloister::runtime

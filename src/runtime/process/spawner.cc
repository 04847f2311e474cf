// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/spawner.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "linux/credentials.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

static_assert(std::is_trivially_copyable_v<SandboxSpec>);

// 0 to 4 are what confine() fills; the spawner's own come after.
constexpr int kControlFd = 5;
constexpr int kProgramFd = 6;
constexpr size_t kMaxAnswer = 1024;

// An answer is the text of an error, or this with a pidfd.
constexpr std::string_view kDone = "done";

std::string_view bytesOf(const SandboxSpec& spec) {
  return {reinterpret_cast<const char*>(&spec), sizeof spec};
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
  if (!kept || !linux::closeFrom(kProgramFd + 1)) ::_exit(1);
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

class Loop {
 public:
  explicit Loop(const SpawnerPlan& plan) : plan_(plan) {}

  [[noreturn]] void run() {
    for (;;) {
      SandboxSpec spec;
      auto message =
          linux::receiveMessage(kControlFd, {reinterpret_cast<char*>(&spec), sizeof spec});
      if (!message || message->size != sizeof spec) ::_exit(0);  // the node is gone
      auto pidfd = spawn(spec, message->fds);
      answer(pidfd);
    }
  }

 private:
  Result<Fd> spawn(const SandboxSpec& spec, std::vector<Fd>& fds) {
    const size_t groups = spec.join_count + (spec.into_cgroup ? 1 : 0);
    if (fds.size() != 1 + groups) return fail(Code::kInternal, "spawning: wrong descriptors");
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return failErrno("pipe2");
    ConfineFds own{std::move(fds[0]), {}, Fd(pipe_ends[0])};
    const Fd mapped(pipe_ends[1]);
    const int cgroup = spec.into_cgroup ? fds.back().get() : -1;
    for (size_t i = 0; i < spec.join_count; ++i)
      own.cgroups.push_back(std::move(fds[1 + i]));
    linux::Cloned child = TRY(linux::cloneProcess(sandboxNamespaces(), cgroup));
    if (child.pid == 0) {
      ::close(mapped.get());
      confine(plan_.confinement, spec, own);
    }
    auto maps = linux::writeIdMaps(child.pid, {&spec.ids, 1}, spec.deny_setgroups);
    if (!maps || ::write(mapped.get(), "", 1) != 1) {
      std::ignore = linux::signalPidfd(child.pidfd.get(), SIGKILL);
      return maps ? failErrno("telling of the id maps") : std::unexpected(std::move(maps).error());
    }
    return std::move(child.pidfd);
  }

  void answer(const Result<Fd>& pidfd) {
    const int fd = pidfd ? pidfd->get() : -1;
    const std::span<const int> fds(&fd, pidfd ? 1 : 0);
    const std::string_view text =
        pidfd ? kDone : std::string_view(pidfd.error().message).substr(0, kMaxAnswer);
    if (!linux::sendMessage(kControlFd, text, fds)) ::_exit(1);
  }

  const SpawnerPlan& plan_;
};

[[noreturn]] void runSpawner(SpawnerPlan& plan, Owner owner, const Fd& control) {
  keepOnly(plan, control);
  const auto ready = prepare(plan, owner);
  const std::string text = ready ? std::string(kDone) : ready.error().message.substr(0, kMaxAnswer);
  if (!linux::sendMessage(kControlFd, text) || !ready) ::_exit(1);
  Loop(plan).run();
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
  std::unique_ptr<Spawner> spawner(new Spawner(std::move(ours), std::move(child->pidfd)));
  std::array<char, kMaxAnswer + 1> text{};
  const auto ready = TRY(linux::receiveMessage(spawner->socket(), text));
  const std::string_view said(text.data(), ready.size);
  if (said != kDone) {
    return fail(Code::kUnsupported,
                "starting the spawner: " + std::string(said.empty() ? "it died" : said));
  }
  if (::fcntl(spawner->socket(), F_SETFL, O_NONBLOCK) != 0) return failErrno("fcntl O_NONBLOCK");
  return spawner;
}

Spawner::~Spawner() {
  std::ignore = linux::signalPidfd(pidfd_.get(), SIGKILL);
  std::ignore = linux::reapPidfd(pidfd_.get());
}

Result<> Spawner::request(const SandboxSpec& spec, std::span<const int> fds) {
  auto sent = linux::sendMessage(socket_.get(), bytesOf(spec), fds);
  if (!sent && sent.error().code != Code::kUnavailable) alive_ = false;
  return sent;
}

Result<Fd> Spawner::answer() {
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

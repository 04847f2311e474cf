// SPDX-License-Identifier: Apache-2.0
#include "guest/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/machine.h"
#include "guest/network.h"
#include "guest/resident.h"
#include "guest/root.h"
#include "runner/filter.h"
#include "runner/process.h"
#include "runner/share.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::guest {
namespace {

constexpr int kProgramFd = wire::kNesterFd + 1;
constexpr int kAside = 16;  // first number of descriptors set aside during arrangement

void bringLoopbackUp() {
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!any || ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) giveUp("bringing up lo");
}

// RESOURCE:VALUE,... Values above this process's own limits are reduced.
void limitResources() {
  const char* at = getenv(wire::guest::kLimits);
  while (at != nullptr && *at != '\0') {
    char* end = nullptr;
    const auto resource = static_cast<int>(strtol(at, &end, 10));
    if (*end != ':') powerOff("malformed limits");
    rlim_t value = strtoull(end + 1, &end, 10);
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0) giveUp("getrlimit");
    if (value > limit.rlim_max) value = limit.rlim_max;
    const bool is_so = limit.rlim_max == value && limit.rlim_cur == value;
    limit = {value, value};
    // gVisor refuses to set some limits, even to their current values.
    if (!is_so && setrlimit(resource, &limit) != 0) giveUp("setrlimit");
    at = *end == ',' ? end + 1 : nullptr;
  }
}

// The first sandbox has the machine's processors; each inner sandbox gets different ones.
void limitProcessors(const Ground& ground, unsigned number) {
  if (ground.machine && number == 0) return;
  const auto count = static_cast<unsigned>(parameter(wire::guest::kCpus));
  if (!runner::useProcessors(count, ground.machine ? number * count : 0)) {
    giveUp("limiting processors");
  }
}

void becomeNobody(bool splits) {
  for (int each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    if (splits && each == CAP_SETUID) continue;
    if (prctl(PR_CAPBSET_DROP, each, 0, 0, 0) != 0) giveUp("dropping capabilities");
  }
  // Inheritable capabilities (capabilities(7)) do not disappear with the change of user.
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  if (syscall(SYS_capget, &header, sets) != 0) giveUp("capget");
  for (auto& set : sets)
    set.inheritable = 0;
  if (syscall(SYS_capset, &header, sets) != 0) giveUp("capset");
  if (syscall(SYS_setgroups, 0, nullptr) != 0 ||
      setresgid(kSandboxUser, kSandboxUser, kSandboxUser) != 0) {
    giveUp("becoming nobody");
  }
  if (splits) return;  // only the user id of root is left, which the runner gives up
  if (setresuid(kSandboxUser, kSandboxUser, kSandboxUser) != 0) giveUp("becoming nobody");
}

int aside(const Fd& fd) {
  const int kept = fcntl(fd.get(), F_DUPFD_CLOEXEC, kAside);
  if (kept < 0) giveUp("keeping a descriptor");
  return kept;
}

// 0, 1 and 2 are /dev/null, then the runner's stream, its socket for inner sandboxes or nothing,
// and its program until execution.
void arrangeFds(const Sandbox::How& how, const Fd& program) {
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) giveUp("opening /dev/null");
  const int stream = aside(how.runner);
  const int nester = how.nester ? aside(how.nester) : -1;
  const int runner = aside(program);
  for (int fd = 0; fd < 3; ++fd) {
    if (dup2(null.get(), fd) != fd) giveUp("dup2");
  }
  if (dup2(stream, wire::kRunnerFd) != wire::kRunnerFd) giveUp("dup2");
  endAlone(wire::kRunnerFd);
  if (nester >= 0 && dup2(nester, wire::kNesterFd) != wire::kNesterFd) giveUp("dup2");
  if (nester < 0) close(wire::kNesterFd);
  if (dup3(runner, kProgramFd, O_CLOEXEC) != kProgramFd ||
      syscall(SYS_close_range, kProgramFd + 1U, runner::kLastFd, 0U) != 0) {
    giveUp("arranging descriptors");
  }
}

[[noreturn]] void becomeRunner(const Ground& ground, const Sandbox::How& how) {
  const bool within = how.number != 0;
  Fd program(open(ground.runner, O_RDONLY | O_CLOEXEC));
  if (!program) giveUp("opening the runner");
  Fd filter(open(ground.filter, O_RDONLY | O_CLOEXEC));
  if (!filter) giveUp("opening the filter");
  if (ground.machine || within) {
    if (ground.machine) bringLoopbackUp();  // gVisor's is up from the start
    if (sethostname("cloister", 8) != 0) giveUp("sethostname");
  }
  enterRoot(ground, within, how.first);
  limitProcessors(ground, how.number);
  limitResources();
  const bool splits = parameter(wire::guest::kWrites) != kWritesAll;
  becomeNobody(splits);
  if (!runner::enterFilter(filter.get())) giveUp("taking on the filter");
  filter.reset();
  arrangeFds(how, program);
  char number[] = {'0' + wire::kNesterFd, '\0'};
  char name[] = "cloister-runner";
  char flag[16];
  char other[16];
  strcpy(flag, how.nester ? wire::kNesterFlag : wire::kOwnLimitFlag);
  strcpy(other, wire::kOtherUserFlag);
  char* argv[6] = {name};
  size_t count = 1;
  const auto tell = [&](char* what) {
    argv[count++] = what;
    argv[count++] = number;
  };
  if (splits) tell(other);
  if (how.nester || !ground.machine) tell(flag);
  char* envp[] = {nullptr};
  syscall(SYS_execveat, kProgramFd, "", argv, envp, 0x1000 /* AT_EMPTY_PATH */);
  giveUp("executing the runner");
}

// For a container's first sandbox, the container's runtime has already made the namespaces. A
// machine's first sandbox has the machine's network, if there is one.
unsigned long namespacesFor(const Ground& ground, unsigned number) {
  unsigned long all = CLONE_NEWPID | CLONE_NEWNS;
  if (ground.machine || number != 0) all |= CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  if (ground.machine && number == 0 && hasNetwork())
    all &= ~static_cast<unsigned long>(CLONE_NEWNET);
  return all;
}

}  // namespace

void Sandbox::start(const Ground& ground, How how) {
  if (ground.machine) group_.make(how.number);
  const long child = syscall(SYS_clone, namespacesFor(ground, how.number) | SIGCHLD, nullptr,
                             nullptr, nullptr, nullptr);
  if (child < 0) giveUp("making the runner's process");
  runner_ = static_cast<pid_t>(child);
  if (child > 0) return;
  endAlone(how.runner.get());
  if (group_) group_.enter();
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGCHLD, SIG_DFL);
  becomeRunner(ground, how);
}

void Sandbox::look() {
  const uint64_t used = residentBytes(runner_);
  if (used > seen_.memory_peak) seen_.memory_peak = used;
  if (used <= parameter(wire::guest::kMemory)) return;
  seen_.killed = 1;
  kill(runner_, SIGKILL);
}

// The end of a pid namespace's first process ends all its processes.
void Sandbox::end() {
  kill(runner_, SIGKILL);
  while (waitpid(runner_, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (group_) group_.remove();
}

}  // namespace cloister::guest

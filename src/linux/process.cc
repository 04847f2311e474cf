// SPDX-License-Identifier: Apache-2.0
#include "linux/process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <tuple>

#include "base/file.h"

namespace cloister::linux {

Result<Cloned> cloneProcess(uint64_t flags, int cgroup) {
  int pidfd = -1;
  clone_args args{};
  args.flags = flags | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(cgroup);
  }
  const long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid < 0) return failErrno("clone3");
  return Cloned{static_cast<pid_t>(pid), pid == 0 ? Fd() : Fd(pidfd)};
}

Result<Cloned> SharingProcess::start(uint64_t flags, std::span<char> stack, int (*run)(void*),
                                     void* argument) {
  shares_ = 1;
  int pidfd = -1;
  const int all = static_cast<int>(flags) | CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID | SIGCHLD;
  const pid_t pid =
      ::clone(run, stack.data() + stack.size(), all, argument, &pidfd, nullptr, &shares_);
  if (pid > 0) return Cloned{pid, Fd(pidfd)};
  shares_ = 0;
  return failErrno("clone");
}

void SharingProcess::wait() const {
  // Without FUTEX_PRIVATE, since the kernel wakes this futex by a shared wake-up.
  while (__atomic_load_n(&shares_, __ATOMIC_ACQUIRE) != 0)
    ::syscall(SYS_futex, &shares_, FUTEX_WAIT, 1, nullptr, nullptr, 0);
}

void registerRseq() {
  if (__rseq_size == 0) return;
  constexpr uint32_t kSize = 32;
  char* thread = static_cast<char*>(__builtin_thread_pointer());
  std::ignore = ::syscall(SYS_rseq, thread + __rseq_offset, kSize, 0, RSEQ_SIG);
}

Result<> joinNamespaces(int pidfd, int flags) {
  if (::setns(pidfd, flags) != 0) return failErrno("joining a process's namespaces");
  return {};
}

Result<> changeRoot(int directory) {
  if (::fchdir(directory) != 0) return failErrno("fchdir");
  if (::chroot(".") != 0) return failErrno("chroot");
  return {};
}

Result<> unshareNamespaces(int flags) {
  if (::unshare(flags) != 0) return failErrno("unshare");
  return {};
}

Result<> signalPidfd(int pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0 && errno != ESRCH) {
    return failErrno("pidfd_send_signal");
  }
  return {};
}

Result<> reapPidfd(int pidfd) {
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED) != 0) {
    if (errno != EINTR) return failErrno("waitid");
  }
  return {};
}

pid_t pidOfPidfd(int pidfd) {
  const auto info = base::readFile("/proc/self/fdinfo/" + std::to_string(pidfd), 4096);
  const size_t at = info ? info->find("\nPid:") : std::string::npos;
  return at == std::string::npos
             ? -1
             : static_cast<pid_t>(std::strtol(info->c_str() + at + 5, nullptr, 10));
}

Result<> closeFrom(unsigned first) {
  if (::syscall(SYS_close_range, first, ~0U, 0U) != 0) return failErrno("close_range");
  return {};
}

Result<> moveFd(int from, int to) {
  const int moved = from == to ? ::fcntl(to, F_SETFD, 0) : ::dup3(from, to, 0);
  if (moved < 0) return failErrno("moving a descriptor");
  return {};
}

namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::string& text : texts)
    list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Error executeFd(int fd, const std::vector<std::string>& argv, const std::vector<std::string>& env) {
  ::syscall(SYS_execveat, fd, "", pointers(argv).data(), pointers(env).data(), AT_EMPTY_PATH);
  return base::errnoError("execveat", errno);
}

Error executeInPath(const std::vector<std::string>& argv, const std::vector<std::string>& env) {
  // execvpe(3) searches this process's PATH.
  for (const std::string& variable : env) {
    if (variable.starts_with("PATH=")) ::setenv("PATH", variable.c_str() + 5, 1);
  }
  ::execvpe(argv.front().c_str(), pointers(argv).data(), pointers(env).data());
  return base::errnoError("executing " + argv.front(), errno);
}

Result<> setNoNewPrivs() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failErrno("setting no_new_privs");
  return {};
}

Result<> hideMemory() {
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return failErrno("hiding this process's memory");
  return {};
}

Result<> showMemory() {
  if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return failErrno("showing this process's memory");
  return {};
}

namespace {

// struct sched_attr of sched_setattr(2). No header of glibc 2.36 defines the struct without
// conflicts.
struct SchedAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};

}  // namespace

void askForSlice(std::chrono::microseconds length) {
  SchedAttributes attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  attributes.runtime = static_cast<uint64_t>(std::chrono::nanoseconds(length).count());
  std::ignore = ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

Result<> dieWithParent() {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return failErrno("setting the parent-death signal");
  return {};
}

namespace {

struct ResourceName {
  int resource;
  const char* name;
};
constexpr ResourceName kResources[] = {
    {RLIMIT_AS, "RLIMIT_AS"},
    {RLIMIT_CORE, "RLIMIT_CORE"},
    {RLIMIT_CPU, "RLIMIT_CPU"},
    {RLIMIT_DATA, "RLIMIT_DATA"},
    {RLIMIT_FSIZE, "RLIMIT_FSIZE"},
    {RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK"},
    {RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE"},
    {RLIMIT_NICE, "RLIMIT_NICE"},
    {RLIMIT_NOFILE, "RLIMIT_NOFILE"},
    {RLIMIT_NPROC, "RLIMIT_NPROC"},
    {RLIMIT_RTPRIO, "RLIMIT_RTPRIO"},
    {RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING"},
    {RLIMIT_STACK, "RLIMIT_STACK"},
};

}  // namespace

std::string resourceName(int resource) {
  for (const auto& [number, name] : kResources) {
    if (number == resource) return name;
  }
  return "RLIMIT_" + std::to_string(resource);
}

Result<> limitProcessors(uint32_t count, uint32_t first) {
  cpu_set_t have;
  if (::sched_getaffinity(0, sizeof have, &have) != 0) return failErrno("sched_getaffinity");
  const auto all = static_cast<uint32_t>(CPU_COUNT(&have));
  if (count == 0 || count >= all) return {};
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  uint32_t place = 0;  // among the allowed processors
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &have)) continue;
    if ((place++ + all - first % all) % all < count) CPU_SET(cpu, &chosen);
  }
  if (::sched_setaffinity(0, sizeof chosen, &chosen) != 0) return failErrno("sched_setaffinity");
  return {};
}

Result<> setResourceLimit(ResourceLimit limit) {
  const auto resource = static_cast<__rlimit_resource_t>(limit.resource);
  rlimit value{limit.value, limit.value};
  if (::setrlimit(resource, &value) == 0) return {};
  rlimit now{};
  if (errno == EPERM && ::getrlimit(resource, &now) == 0 && now.rlim_max < limit.value) {
    value = {now.rlim_max, now.rlim_max};
    if (::setrlimit(resource, &value) == 0) return {};
  }
  return failErrno("setting " + resourceName(limit.resource));
}

Result<> setSoftLimit(ResourceLimit limit) {
  const auto resource = static_cast<__rlimit_resource_t>(limit.resource);
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return failErrno("getrlimit");
  now.rlim_cur = std::min<rlim_t>(limit.value, now.rlim_max);
  if (::setrlimit(resource, &now) == 0) return {};
  return failErrno("setting " + resourceName(limit.resource));
}

size_t raiseDescriptors(size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, wanted));
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_cur;
}

}  // namespace cloister::linux

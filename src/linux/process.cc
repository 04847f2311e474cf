// SPDX-License-Identifier: Apache-2.0
#include "linux/process.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

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
  // execvpe(3) itself looks into this process's PATH.
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

}  // namespace cloister::linux

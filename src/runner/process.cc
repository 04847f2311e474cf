// SPDX-License-Identifier: Apache-2.0
#include "runner/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <string_view>

#include "runner/writes.h"

namespace cloister::runner {
namespace {

constexpr int kCannotBegin = 127;  // as in a shell
constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// The child runs on this stack, in the runner's memory, while the runner is suspended.
alignas(16) char child_stack[32'768];

struct Child {
  const Command* command;
  Stdio stdio;
  Groups groups;
  int error = 0;
  const char* what = "";
};

std::string_view pathOf(char** envp) {
  for (char** entry = envp; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with("PATH=")) return *entry + 5;
  }
  return kDefaultPath;
}

}  // namespace

// Tries each directory of PATH in order, as execvp(3) does, without its fallback to a shell: a file
// in no format the kernel knows is an error that the caller should see. Returns errno.
int execInPath(const Command& command) {
  const std::string_view name = command.argv[0];
  if (name.empty()) return ENOENT;
  if (name.contains('/')) {
    execve(command.argv[0], command.argv, command.envp);
    return errno;
  }
  std::string_view path = pathOf(command.envp);
  int error = ENOENT;
  for (bool more = true; more;) {
    const size_t colon = path.find(':');
    const std::string_view dir = path.substr(0, colon);
    more = colon != std::string_view::npos;
    if (more) path.remove_prefix(colon + 1);
    char candidate[PATH_MAX];
    if (dir.empty() || dir.size() + name.size() + 2 > sizeof candidate) continue;
    std::memcpy(candidate, dir.data(), dir.size());
    candidate[dir.size()] = '/';
    std::memcpy(candidate + dir.size() + 1, name.data(), name.size());
    candidate[dir.size() + 1 + name.size()] = '\0';
    execve(candidate, command.argv, command.envp);
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return errno;
    if (errno == EACCES) error = EACCES;
  }
  return error;
}

namespace {

int failed(Child& child, const char* what, int error) {
  child.error = error;
  child.what = what;
  return kCannotBegin;
}

// Sets up each program's environment. Returns 0, or the exit code, with the reason in `child`.
bool limits_anew = false;

int settle(Child& child) {
  // The runner's own has no hard limit.
  rlimit time{};
  if (getrlimit(RLIMIT_CPU, &time) != 0) return failed(child, "getrlimit", errno);
  const bool differs = time.rlim_max != time.rlim_cur;
  time.rlim_max = time.rlim_cur;
  if ((differs || limits_anew) && setrlimit(RLIMIT_CPU, &time) != 0) {
    return failed(child, "setrlimit", errno);
  }
  for (size_t i = 0; i < child.groups.count; ++i) {
    if (write(child.groups.files[i].get(), "0", 1) != 1) return failed(child, "cgroup", errno);
  }
  setsid();
  if (dup2(child.stdio.in, 0) < 0 || dup2(child.stdio.out, 1) < 0 || dup2(child.stdio.err, 2) < 0)
    return failed(child, "dup2", errno);
  return 0;
}

void openMask() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

int childMain(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  if (const int code = settle(child); code != 0) return code;
  if (const int error = enterWriteLimits(); error != 0) return failed(child, "landlock", error);
  if (syscall(SYS_close_range, 3U, kLastFd, 0U) != 0) return failed(child, "close_range", errno);
  if (chdir(child.command->cwd) != 0) return failed(child, "chdir", errno);
  openMask();
  return failed(child, "execve", execInPath(*child.command));
}

// With a terminal: the failed step, sent over a pipe that ends at the program's execution.
struct StartReport {
  int error = 0;
  char what[16] = "";
};

void tellFailure(int fd, const char* what) {
  StartReport report;
  report.error = errno;
  std::strncpy(report.what, what, sizeof report.what - 1);
  [[maybe_unused]] const ssize_t n = write(fd, &report, sizeof report);
  _exit(kCannotBegin);
}

// Runs in the terminal's foreground, as a shell would start the program.
[[noreturn]] void runInForeground(const Command& command, int report) {
  setpgid(0, 0);
  // SIGTTOU would stop the process, but all signals are still blocked.
  if (tcsetpgrp(STDIN_FILENO, getpid()) != 0) tellFailure(report, "tcsetpgrp");
  if (chdir(command.cwd) != 0) tellFailure(report, "chdir");
  openMask();
  errno = execInPath(command);
  tellFailure(report, "execve");
  _exit(kCannotBegin);
}

// Forwards signals to the program until its end, and then ends the same way.
[[noreturn]] void leadSession(pid_t program) {
  sigset_t all;
  sigfillset(&all);
  for (;;) {
    siginfo_t info;
    const int signal = sigwaitinfo(&all, &info);
    // The terminal's own signals reach the foreground directly.
    if (signal > 0 && signal != SIGCHLD && info.si_code <= 0) kill(-program, signal);
    int status = 0;
    if (waitpid(program, &status, WNOHANG | WUNTRACED) != program) continue;
    if (WIFSTOPPED(status)) {
      // No shell could resume the program, so Ctrl-Z has no effect, as for a session's leader.
      if (WSTOPSIG(status) != SIGSTOP) kill(-program, SIGCONT);
      continue;
    }
    ioctl(STDIN_FILENO, TIOCNOTTY);  // SIGHUP to the foreground; nothing written is lost
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    kill(getpid(), WTERMSIG(status));
    openMask();
    _exit(128 + WTERMSIG(status));
  }
}

[[noreturn]] void beginSession(const Command& command, int terminal, const Groups& groups,
                               int report) {
  constexpr int kReport = 3;
  Child child{nullptr, {terminal, terminal, terminal}, groups};
  if (settle(child) != 0) tellFailure(report, child.what);
  errno = enterWriteLimits();
  if (errno != 0) tellFailure(report, "landlock");
  if (dup2(report, kReport) < 0 || fcntl(kReport, F_SETFD, FD_CLOEXEC) != 0 ||
      syscall(SYS_close_range, kReport + 1U, kLastFd, 0U) != 0)
    tellFailure(report, "close_range");
  if (ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0) tellFailure(kReport, "TIOCSCTTY");
  const pid_t program = fork();
  if (program < 0) tellFailure(kReport, "fork");
  if (program == 0) runInForeground(command, kReport);
  close(kReport);
  leadSession(program);
}

}  // namespace

void setLimitsAnew() {
  limits_anew = true;
}

Spawned spawnOnTerminal(const Command& command, int terminal, const Groups& groups) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {-1, errno, "pipe"};
  const Fd report(ends[0]);
  Fd theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return {-1, errno, "fork"};
  if (pid == 0) beginSession(command, terminal, groups, theirs.get());
  theirs.reset();
  static StartReport failure;
  ssize_t n = 0;
  do {
    n = read(report.get(), &failure, sizeof failure);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return {pid, 0, ""};
  failure.what[sizeof failure.what - 1] = '\0';
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {-1, failure.error, failure.what};
}

Spawned spawn(const Command& command, const Stdio& stdio, const Groups& groups) {
  Child child{&command, stdio, groups};
  const pid_t pid =
      clone(childMain, child_stack + sizeof child_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
  if (pid < 0) return {-1, errno, "clone"};
  if (child.error == 0) return {pid, 0, ""};
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {-1, child.error, child.what};
}

// A failed start becomes an exit code: unlike the other spawn(), the child shares no memory with
// the runner.
Spawned spawn(int (*main)(int fd, char** argv), int fd, char** argv, const Stdio& stdio,
              const Groups& groups) {
  constexpr int kKept = 3;
  const pid_t pid = fork();
  if (pid < 0) return {-1, errno, "fork"};
  if (pid > 0) return {pid, 0, ""};
  Child child{nullptr, stdio, groups};
  if (settle(child) != 0 || dup2(fd, kKept) < 0) _exit(kCannotBegin);
  const unsigned others = keepWriteLimits(kKept + 1);
  if (syscall(SYS_close_range, others, kLastFd, 0U) != 0) _exit(kCannotBegin);
  openMask();
  _exit(main(kKept, argv));
}

}  // namespace cloister::runner

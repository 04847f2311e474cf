// SPDX-License-Identifier: Apache-2.0
#include "runner/process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <string_view>

namespace cloister::runner {
namespace {

constexpr int kCannotBegin = 127;  // as a shell says it
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

// What every program is given. 0, or the exit code, with the reason in `child`.
int settle(Child& child) {
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
  if (syscall(SYS_close_range, 3U, ~0U, 0U) != 0) return failed(child, "close_range", errno);
  if (chdir(child.command->cwd) != 0) return failed(child, "chdir", errno);
  openMask();
  return failed(child, "execve", execInPath(*child.command));
}

}  // namespace

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

// Its failure to begin is an exit code: unlike the other, it shares no memory with the runner.
Spawned spawn(int (*main)(int fd, char** argv), int fd, char** argv, const Stdio& stdio,
              const Groups& groups) {
  constexpr int kKept = 3;
  const pid_t pid = fork();
  if (pid < 0) return {-1, errno, "fork"};
  if (pid > 0) return {pid, 0, ""};
  Child child{nullptr, stdio, groups};
  if (settle(child) != 0 || dup2(fd, kKept) < 0) _exit(kCannotBegin);
  if (syscall(SYS_close_range, kKept + 1U, ~0U, 0U) != 0) _exit(kCannotBegin);
  openMask();
  _exit(main(kKept, argv));
}

}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
#include "supervisor/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace cloister::supervisor {
namespace {

constexpr std::string_view kListenPid = "LISTEN_PID=";

// Everything exec needs, made before the fork: the child may only make async-signal-safe calls.
struct Prepared {
  std::vector<std::string> env;
  std::vector<char*> argv_pointers;
  std::vector<char*> env_pointers;
  char* listen_pid = nullptr;  // room for the digits
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& text : strings)
    out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

Prepared prepare(const Program& program) {
  Prepared prepared;
  prepared.env = program.env;
  if (!program.listeners.empty()) {
    prepared.env.push_back("LISTEN_FDS=" + std::to_string(program.listeners.size()));
    prepared.env.push_back(std::string(kListenPid) + std::string(20, '\0'));
  }
  prepared.argv_pointers = pointers(program.argv);
  prepared.env_pointers = pointers(prepared.env);
  if (!program.listeners.empty()) {
    prepared.listen_pid = prepared.env.back().data() + kListenPid.size();
  }
  return prepared;
}

void writeDigits(char* to, pid_t pid) {
  char digits[20];
  size_t n = 0;
  for (auto left = static_cast<uint32_t>(pid); left > 0; left /= 10)
    digits[n++] = static_cast<char>('0' + left % 10);
  std::reverse_copy(digits, digits + n, to);
  to[n] = 0;
}

[[noreturn]] void runChild(const Program& program, const Prepared& prepared) {
  ::setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (program.stderr_fd >= 0) ::dup2(program.stderr_fd, STDERR_FILENO);
  ::dup2(program.stdout_fd >= 0 ? program.stdout_fd : STDERR_FILENO, STDOUT_FILENO);
  const int input =
      program.stdin_fd >= 0 ? program.stdin_fd : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  for (const int fd : program.pass)
    ::fcntl(fd, F_SETFD, 0);
  for (size_t i = 0; i < program.listeners.size(); ++i)
    ::dup2(program.listeners[i], static_cast<int>(3 + i));
  if (prepared.listen_pid != nullptr) writeDigits(prepared.listen_pid, ::getpid());
  ::execve(prepared.argv_pointers[0], prepared.argv_pointers.data(), prepared.env_pointers.data());
  constexpr int kCannotExec = 127;
  ::_exit(kCannotExec);
}

}  // namespace

Result<pid_t> start(const Program& program) {
  if (::access(program.argv[0].c_str(), X_OK) != 0) return failErrno("running " + program.argv[0]);
  const Prepared prepared = prepare(program);
  const pid_t pid = ::fork();
  if (pid < 0) return failErrno("starting " + program.argv[0]);
  if (pid == 0) runChild(program, prepared);
  return pid;
}

Result<Fd> moveUp(Fd fd) {
  Fd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstSafeFd));
  if (!moved) return failErrno("moving a descriptor");
  return moved;
}

Result<Pipe> makePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("making a pipe");
  Fd read(ends[0]);
  Fd write(ends[1]);
  return Pipe{TRY(moveUp(std::move(read))), TRY(moveUp(std::move(write)))};
}

std::string describeExit(int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return "exited with status " + std::to_string(WEXITSTATUS(wait_status));
  }
  const char* name = ::sigabbrev_np(WTERMSIG(wait_status));
  return "was killed by " + (name != nullptr ? "SIG" + std::string(name)
                                             : "signal " + std::to_string(WTERMSIG(wait_status)));
}

std::vector<std::string> environmentWithout(const std::vector<std::string>& names) {
  std::vector<std::string> kept;
  for (char** at = ::environ; *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const std::string name(entry.substr(0, entry.find('=')));
    if (std::ranges::find(names, name) == names.end()) kept.emplace_back(entry);
  }
  return kept;
}

}  // namespace cloister::supervisor

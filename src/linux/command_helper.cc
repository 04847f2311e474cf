// SPDX-License-Identifier: Apache-2.0
#include "linux/command_helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/clock.h"
#include "linux/process.h"

namespace cloister::linux {
namespace {

using base::Monotonic;
using base::monotonicNow;
using std::chrono::milliseconds;

constexpr int kSocket = 3;
constexpr int kNotExecuted = 127;

bool readAll(int fd, void* out, size_t size) {
  for (auto* at = static_cast<char*>(out); size > 0;) {
    const ssize_t n = ::read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool sendAll(int fd, const void* bytes, size_t size) {
  for (const auto* at = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t n = ::send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

int untilMillis(Monotonic deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - monotonicNow()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

// --- the helper
// -----------------------------------------------------------------------------------

// A run of the command.
class Run {
 public:
  explicit Run(const HelperCommand& command) : command_(command) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() = default;

  // The request's bytes in, the command's end out. False when the parent is gone.
  bool serve(int socket) {
    const Monotonic deadline = monotonicNow() + command_.timeout;
    const bool started = start();
    while (started && !ended_ && monotonicNow() < deadline) {
      if (!step(socket, untilMillis(deadline))) return stop(), false;
    }
    if (started && ended_) listen();
    if (started && !ended_) stop();
    if (started) ::kill(-pid_, SIGKILL);  // leftover processes
    what_ = kHelperTimedOut;
    if (!started) what_ = kHelperNotRun;
    if (ended_) what_ = WIFEXITED(status_) ? WEXITSTATUS(status_) : kHelperKilled;
    if (what_ == kNotExecuted) what_ = kHelperNotRun;
    while (!all_) {  // unread rest of the request
      if (!receive(socket)) return false;
    }
    const auto size = static_cast<uint32_t>(said_.size());
    return sendAll(socket, &what_, sizeof what_) && sendAll(socket, &size, sizeof size) &&
           sendAll(socket, said_.data(), size);
  }

 private:
  bool start() {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0) return false;
    Fd in_read(in[0]);
    input_.reset(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0) return false;
    output_.reset(out[0]);
    const Fd out_write(out[1]);
    ::fcntl(input_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    auto cloned = cloneProcess(0);
    if (!cloned) return false;
    pid_ = cloned->pid;
    pidfd_ = std::move(cloned->pidfd);
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in_read.get(), STDIN_FILENO);
      ::dup2(out_write.get(), STDOUT_FILENO);
      ::dup2(out_write.get(), STDERR_FILENO);
      std::ignore = closeFrom(STDERR_FILENO + 1);
      ::signal(SIGPIPE, SIG_DFL);
      std::ignore =
          executeInPath(command_.argv, {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"});
      ::_exit(kNotExecuted);
    }
    return pid_ > 0;
  }

  // Waits for something to pass on, and does.
  bool step(int socket, int wait) {
    const bool idle = pending_.empty();
    pollfd fds[4] = {{.fd = idle && !all_ ? socket : -1, .events = POLLIN, .revents = 0},
                     {.fd = idle ? -1 : input_.get(), .events = POLLOUT, .revents = 0},
                     {.fd = output_.get(), .events = POLLIN, .revents = 0},
                     {.fd = pidfd_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(fds, 4, wait) < 0) return errno == EINTR;
    if (fds[0].revents != 0 && !receive(socket)) return false;
    if (fds[1].revents != 0) feed();
    if (fds[2].revents != 0) listen();
    if (fds[3].revents != 0) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return true;
  }

  bool receive(int socket) {
    uint32_t size = 0;
    if (!readAll(socket, &size, sizeof size) || size > kMaxHelperFrame) return false;
    pending_.resize(size);
    if (!readAll(socket, pending_.data(), size)) return false;
    all_ = size == 0;
    if (all_ || !input_) pending_.clear();
    if (all_) input_.reset();
    return true;
  }

  void feed() {
    const ssize_t n = ::write(input_.get(), pending_.data(), pending_.size());
    if (n > 0) pending_.erase(0, static_cast<size_t>(n));
    if (n >= 0 || errno == EAGAIN || errno == EINTR) return;
    input_.reset();  // the command has closed its input
    pending_.clear();
  }

  void listen() {
    char piece[65'536];
    const ssize_t n = output_ ? ::read(output_.get(), piece, sizeof piece) : 0;
    if (n == 0) output_.reset();
    if (n > 0)
      said_.append(piece, std::min<size_t>(static_cast<size_t>(n), kMaxHelperSaid - said_.size()));
  }

  void stop() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // the child may not yet have its process group
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
  }

  const HelperCommand& command_;
  pid_t pid_ = -1;
  Fd pidfd_;
  bool ended_ = false;
  int status_ = 0;
  int32_t what_ = kHelperNotRun;
  Fd input_;
  Fd output_;
  std::string pending_;
  std::string said_;
  bool all_ = false;
};

[[noreturn]] void serveRequests(const HelperCommand& command) {
  ::signal(SIGPIPE, SIG_IGN);
  for (;;) {
    pollfd waiting{.fd = kSocket, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, -1) < 0 && errno == EINTR) continue;
    if ((waiting.revents & POLLIN) == 0) ::_exit(0);
    Run run(command);
    if (!run.serve(kSocket)) ::_exit(0);
  }
}

}  // namespace

Result<Fd> startCommandHelper(const HelperCommand& command) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return failErrno("starting the helper for " + command.argv[0]);
  }
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failErrno("starting the helper for " + command.argv[0]);
  if (pid > 0) return ours;
  // Keep only the socket of this process. The new user and limits must be in force before serving.
  if (!moveFd(theirs.get(), kSocket) || !closeFrom(kSocket + 1)) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) ::_exit(1);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(null, fd);
  if (null > kSocket) ::close(null);
  const User self{::geteuid(), ::getegid()};
  const User user = command.user.value_or(self);
  if (::chdir("/") != 0 || !dropTo(user.uid, user.gid)) ::_exit(1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  serveRequests(command);
}

Result<> sendToHelper(int socket, std::string_view bytes) {
  do {
    const std::string_view piece = bytes.substr(0, kMaxHelperFrame);
    const auto size = static_cast<uint32_t>(piece.size());
    if (!sendAll(socket, &size, sizeof size) || !sendAll(socket, piece.data(), size)) {
      return fail(Code::kUnavailable, "the helper is gone");
    }
    bytes.remove_prefix(size);
  } while (!bytes.empty());
  return {};
}

Result<HelperAnswer> receiveFromHelper(int socket, milliseconds patience) {
  pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
  const Monotonic deadline = monotonicNow() + patience;
  while (::poll(&waiting, 1, untilMillis(deadline)) == 0 && monotonicNow() < deadline) {
  }
  HelperAnswer answer;
  uint32_t size = 0;
  if ((waiting.revents & POLLIN) == 0 || !readAll(socket, &answer.what, sizeof answer.what) ||
      !readAll(socket, &size, sizeof size) || size > kMaxHelperSaid) {
    return fail(Code::kUnavailable, "the helper did not answer");
  }
  answer.said.resize(size);
  if (readAll(socket, answer.said.data(), size)) return answer;
  return fail(Code::kUnavailable, "the helper did not answer");
}

}  // namespace cloister::linux

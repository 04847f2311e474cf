// SPDX-License-Identifier: Apache-2.0
#include "images/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/fd.h"
#include "linux/process.h"

namespace cloister::images {
namespace {

constexpr int kTickMillis = 100;

class Child {
 public:
  Child(linux::Cloned cloned, Fd output) : cloned_(std::move(cloned)), output_(std::move(output)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (reaped_) return;
    std::ignore = linux::signalPidfd(cloned_.pidfd.get(), SIGKILL);
    std::ignore = linux::reapPidfd(cloned_.pidfd.get());
  }

  // Until its end of file.
  Result<> listen(int cancel, const std::function<void(std::string_view)>& heard) {
    size_t said = 0;
    for (;;) {
      pollfd fds[] = {{output_.get(), POLLIN, 0}, {cancel, POLLIN, 0}};
      const int ready = ::poll(fds, 2, kTickMillis);
      if (ready < 0 && errno != EINTR) return failErrno("poll");
      if (ready <= 0) {
        heard("");
        continue;
      }
      if (fds[1].revents != 0) return fail(Code::kUnavailable, "interrupted");
      char piece[4096];
      const ssize_t n = ::read(output_.get(), piece, sizeof piece);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failErrno("reading from the confined process");
      if (n == 0) return {};
      said += static_cast<size_t>(n);
      if (said > kMaxSaid) return fail(Code::kInternal, "the confined process says too much");
      heard({piece, static_cast<size_t>(n)});
    }
  }

  Result<int> status() {
    int status = 0;
    while (::waitpid(cloned_.pid, &status, 0) < 0) {
      if (errno != EINTR) return failErrno("waiting for the confined process");
    }
    reaped_ = true;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    return fail(Code::kInternal, std::string("the confined process was ended by SIG") +
                                     ::sigabbrev_np(WTERMSIG(status)));
  }

 private:
  linux::Cloned cloned_;
  Fd output_;
  bool reaped_ = false;
};

}  // namespace

Result<int> runChild(const std::function<int(int)>& body, int cancel,
                     const std::function<void(std::string_view)>& heard) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  linux::Cloned cloned = TRY(linux::cloneProcess(0));
  if (cloned.pid == 0) ::_exit(linux::dieWithParent() ? body(theirs.get()) : 1);
  theirs.reset();
  Child child(std::move(cloned), std::move(ours));
  TRY(child.listen(cancel, heard));
  return child.status();
}

}  // namespace cloister::images

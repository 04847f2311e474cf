// SPDX-License-Identifier: Apache-2.0
#include "supervisor/capture.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cloister::supervisor {
namespace {

// A file in memory takes any amount at once, so that the program never waits for its reader.
Result<Fd> outputFile(const char* name) {
  Fd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) return failErrno("making a file for output");
  return moveUp(std::move(file));
}

std::string contentOf(const Fd& file) {
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  std::string text(std::min(static_cast<size_t>(std::max<off_t>(size, 0)), kMostCaptured), '\0');
  const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

// Waits for the end of the pipe that the program holds open; false at `deadline` or an interrupt.
bool waitForEnd(int alive, int interrupt, base::Monotonic deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<Millis>(deadline - base::monotonicNow()).count();
    if (left <= 0) return false;
    pollfd polled[2] = {{alive, POLLIN, 0}, {interrupt, POLLIN, 0}};
    const int n = ::poll(polled, 2, static_cast<int>(left));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || polled[1].revents != 0) return false;
    return true;
  }
}

}  // namespace

Result<Captured> capture(Program program, Millis patience, int interrupt) {
  const Fd out = TRY(outputFile("stdout"));
  const Fd err = TRY(outputFile("stderr"));
  Pipe alive = TRY(makePipe());
  program.stdout_fd = out.get();
  program.stderr_fd = err.get();
  program.pass.push_back(alive.write.get());
  const std::string name = program.argv.front();
  const pid_t pid = TRY(start(program));
  alive.write.reset();
  const bool ended = waitForEnd(alive.read.get(), interrupt, base::monotonicNow() + patience);
  for (const pid_t killed : {-pid, pid}) {  // perhaps before it has become a group
    if (!ended) ::kill(killed, SIGKILL);
  }
  Captured captured;
  while (::waitpid(pid, &captured.wait_status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    return fail(Code::kUnavailable, "waiting for " + name + ": it did not end within " +
                                        std::to_string(patience.count()) + " ms");
  }
  captured.out = contentOf(out);
  captured.err = contentOf(err);
  return captured;
}

}  // namespace cloister::supervisor

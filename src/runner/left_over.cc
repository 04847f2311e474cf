// SPDX-License-Identifier: Apache-2.0
#include "runner/left_over.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <stdio.h>

#include "runner/other_user.h"

namespace cloister::runner {
namespace {

constexpr char kDirectory[] = "/tmp/.cloister-output";
// A process that writes without end must not keep the runner from other work.
constexpr int kReadsOfOne = 4;

char buffer[LeftOver::kKept];

bool hasWriter(const Fd& pipe) {
  pollfd state{pipe.get(), POLLIN, 0};
  return poll(&state, 1, 0) >= 0 && (state.revents & (POLLHUP | POLLERR)) == 0;
}

// Does not follow a link out of the directory: programs may have made a link.
Fd openFile(pid_t program, const char* stream) {
  const mode_t others = usersAreSplit() ? 0050 : 0;  // programs are of the group alone
  if (mkdir(kDirectory, 0700 | others) != 0 && errno != EEXIST) return Fd();
  const Fd dir(open(kDirectory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  char name[64];
  snprintf(name, sizeof name, "%d.%s", static_cast<int>(program), stream);
  if (!dir || (unlinkat(dir.get(), name, 0) != 0 && errno != ENOENT)) return Fd();
  return Fd(openat(dir.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                   0600 | (others & 0040)));
}

}  // namespace

void LeftOver::take(Fd& pipe, pid_t program, const char* stream) {
  if (!pipe || !hasWriter(pipe)) return;
  for (Pipe& place : pipes_) {
    if (place.fd) continue;
    place.fd = std::move(pipe);
    place.file.reset();
    place.ready = false;
    place.written = 0;
    place.program = program;
    place.stream = stream;
    return;
  }
}

void LeftOver::serve() {
  for (Pipe& pipe : pipes_) {
    if (pipe.fd && std::exchange(pipe.ready, false)) empty(pipe);
  }
}

void LeftOver::empty(Pipe& pipe) {
  for (int i = 0; i < kReadsOfOne; ++i) {
    const ssize_t n = read(pipe.fd.get(), buffer, sizeof buffer);
    if (n > 0) {
      keep(pipe, buffer, static_cast<size_t>(n));
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      pipe.fd.reset();
      pipe.file.reset();
    }
    return;
  }
}

// When the file has two halves, starts again with its second half. Without room, new output is
// lost.
void LeftOver::keep(Pipe& pipe, const char* bytes, size_t size) {
  if (!pipe.file) pipe.file = openFile(pipe.program, pipe.stream);
  if (!pipe.file) return;
  if (pipe.written + size > 2 * kKept) {
    static char old[kKept];
    const size_t kept = std::min(pipe.written, kKept);
    const ssize_t n = pread(pipe.file.get(), old, kept, static_cast<off_t>(pipe.written - kept));
    pipe.written = 0;
    if (ftruncate(pipe.file.get(), 0) != 0) return;
    if (n > 0 && pwrite(pipe.file.get(), old, static_cast<size_t>(n), 0) == n) {
      pipe.written = static_cast<size_t>(n);
    }
  }
  const ssize_t n = pwrite(pipe.file.get(), bytes, size, static_cast<off_t>(pipe.written));
  if (n > 0) pipe.written += static_cast<size_t>(n);
}

}  // namespace cloister::runner

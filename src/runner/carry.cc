// SPDX-License-Identifier: Apache-2.0
#include "runner/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <initializer_list>

namespace cloister::runner {
namespace {

// A direction of transfer. Bytes read stay here until written, and reading pauses meanwhile. All
// zero at first, which costs no memory until use.
struct Flow {
  int from = 0;
  int to = 0;
  size_t begin = 0;
  size_t end = 0;
  bool over = false;  // no more data follows
  char bytes[65'536];

  [[nodiscard]] bool holds() const { return begin < end; }
  [[nodiscard]] pollfd wants() const {
    if (holds()) return {to, POLLOUT, 0};
    return {over ? -1 : from, POLLIN, 0};
  }

  // Returns errno.
  int move() {
    if (!holds()) {
      const ssize_t n = read(from, bytes, sizeof bytes);
      if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : errno;
      over = n == 0;
      begin = 0;
      end = static_cast<size_t>(n);
    }
    while (holds()) {
      const ssize_t n = write(to, bytes + begin, end - begin);
      if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : errno;
      begin += static_cast<size_t>(n);
    }
    return 0;
  }
};

Flow up;    // from stdin
Flow down;  // to stdout

int relay() {
  for (;;) {
    pollfd fds[2] = {up.wants(), down.wants()};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return errno;
    if (fds[0].revents != 0) {
      const bool was_over = up.over;
      // A peer that no longer reads may still send.
      if (up.move() != 0) up.over = true, up.begin = up.end;
      if (up.over && !was_over && !up.holds()) shutdown(up.to, SHUT_WR);
    }
    if (fds[1].revents != 0) {
      if (const int error = down.move(); error != 0) return error;
    }
    if (down.over && !down.holds()) return 0;
  }
}

}  // namespace

int carry(int socket) {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, socket}) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return errno;
  }
  signal(SIGPIPE, SIG_IGN);
  up.from = STDIN_FILENO;
  up.to = down.from = socket;
  down.to = STDOUT_FILENO;
  return relay();
}

}  // namespace cloister::runner

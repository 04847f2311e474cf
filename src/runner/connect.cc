// SPDX-License-Identifier: Apache-2.0
#include "runner/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

namespace cloister::runner {
namespace {

int openSocket(int family, const sockaddr* address, socklen_t size, Fd& fd) {
  fd.reset(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  return connect(fd.get(), address, size) == 0 ? 0 : errno;
}

int openPort(uint16_t port, Fd& fd) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int error = openSocket(AF_INET, reinterpret_cast<sockaddr*>(&v4), sizeof v4, fd);
  if (error != ECONNREFUSED) return error;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  v6.sin6_addr = in6addr_loopback;
  // Where there is no IPv6, what the first said is the reason.
  return openSocket(AF_INET6, reinterpret_cast<sockaddr*>(&v6), sizeof v6, fd) == 0 ? 0 : error;
}

// One direction. What was read waits here until it can be written, and nothing more is read.
// All of it zero at first, which costs no memory until it is used.
struct Flow {
  int from = 0;
  int to = 0;
  size_t begin = 0;
  size_t end = 0;
  bool over = false;  // nothing more comes
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

Flow up;    // from stdin to the server
Flow down;  // from the server to stdout

int relay() {
  for (;;) {
    pollfd fds[2] = {up.wants(), down.wants()};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return errno;
    if (fds[0].revents != 0) {
      const bool was_over = up.over;
      // A server that reads no more may still have something to say.
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

int connectTo(uint16_t port, Answer& answer) {
  Fd server;
  if (const int error = openPort(port, server); error != 0) return error;
  const int on = 1;
  setsockopt(server.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (const int error = answer.end(0); error != 0) return error;
  if (const int error = answer.flush(); error != 0) return error;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, server.get()}) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return errno;
  }
  signal(SIGPIPE, SIG_IGN);
  up.from = STDIN_FILENO;
  up.to = down.from = server.get();
  down.to = STDOUT_FILENO;
  return relay();
}

}  // namespace cloister::runner

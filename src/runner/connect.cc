// SPDX-License-Identifier: Apache-2.0
#include "runner/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "runner/carry.h"

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
  // Without IPv6, report the first error.
  return openSocket(AF_INET6, reinterpret_cast<sockaddr*>(&v6), sizeof v6, fd) == 0 ? 0 : error;
}

}  // namespace

int connectTo(uint16_t port, Answer& answer) {
  Fd server;
  if (const int error = openPort(port, server); error != 0) return error;
  const int on = 1;
  setsockopt(server.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (const int error = answer.end(0); error != 0) return error;
  if (const int error = answer.flush(); error != 0) return error;
  return carry(server.get());
}

}  // namespace cloister::runner

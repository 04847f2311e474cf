// SPDX-License-Identifier: Apache-2.0
// For tests: a network of a child's own, and attempts to reach something in it.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include <arpa/inet.h>

#include "base/fd.h"
#include "base/network.h"
#include "linux/in_child.h"
#include "linux/network.h"

namespace cloister::linux {

// As inNamespaces(), in a network namespace of the child's own whose `lo` is up.
inline int inNetwork(const std::function<int()>& body) {
  return inNamespaces([&] { return enterNewNetwork() ? body() : kNoNamespaces; });
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

inline SocketAddress socketAddress(const std::string& text, uint16_t port) {
  SocketAddress at;
  if (text.contains(':')) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    ::inet_pton(AF_INET6, text.c_str(), &address.sin6_addr);
    std::memcpy(&at.storage, &address, at.size = sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, text.c_str(), &address.sin_addr);
    std::memcpy(&at.storage, &address, at.size = sizeof address);
  }
  return at;
}

// "ADDRESS PORT" of this end of a socket.
inline std::string ownEnd(int socket) {
  SocketAddress at;
  at.size = sizeof at.storage;
  if (::getsockname(socket, at.get(), &at.size) != 0) return std::strerror(errno);
  const uint16_t port = at.storage.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(at.storage).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(at.storage).sin_port;
  return base::Address::of(at.storage).value_or(base::Address()).text() + " " +
         std::to_string(ntohs(port));
}

inline bool readable(int fd) {
  constexpr int kSeconds = 10;
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, kSeconds * 1000) == 1;
}

// A socket of `type` that has tried to connect; `error` is 0 or errno.
struct Attempt {
  Fd socket;
  int error = 0;
};
inline Attempt attempt(int type, const std::string& address, uint16_t port) {
  const SocketAddress to = socketAddress(address, port);
  Attempt made{Fd(::socket(to.storage.ss_family, type | SOCK_CLOEXEC, 0)), 0};
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(made.socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(made.socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (::connect(made.socket.get(), to.get(), to.size) != 0) made.error = errno;
  return made;
}

// Sends a datagram, and returns the error that comes back, or 0 with an answer.
inline int ask(const std::string& address, uint16_t port) {
  const Attempt made = attempt(SOCK_DGRAM, address, port);
  if (made.error != 0) return made.error;
  if (::send(made.socket.get(), "?", 1, 0) != 1) return errno;
  char answer = 0;
  return ::recv(made.socket.get(), &answer, 1, 0) == 1 ? 0 : errno;
}

// A TCP server of the test, at `address`, with a port of the kernel's choice.
struct Server {
  Fd socket;
  uint16_t port = 0;
};
inline Server serve(const std::string& address) {
  SocketAddress at = socketAddress(address, 0);
  Server server{Fd(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
  if (::bind(server.socket.get(), at.get(), at.size) != 0) return {};
  if (::listen(server.socket.get(), 8) != 0) return {};
  const std::string end = ownEnd(server.socket.get());
  server.port = static_cast<uint16_t>(std::stoi(end.substr(end.find(' ') + 1)));
  return server;
}

}  // namespace cloister::linux

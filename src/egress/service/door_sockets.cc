// SPDX-License-Identifier: Apache-2.0
#include "egress/service/door_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

namespace cloister::egress {
namespace {

int socketOption(const Fd& socket, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  if (::getsockopt(socket.get(), SOL_SOCKET, option, &value, &size) != 0) return -1;
  return value;
}

bool isInternet(const Fd& socket) {
  const int domain = socketOption(socket, SO_DOMAIN);
  return domain == AF_INET || domain == AF_INET6;
}

bool isTcpListener(const Fd& socket) {
  return isInternet(socket) && socketOption(socket, SO_PROTOCOL) == IPPROTO_TCP &&
         socketOption(socket, SO_ACCEPTCONN) == 1;
}

bool isUdp(const Fd& socket) {
  return isInternet(socket) && socketOption(socket, SO_PROTOCOL) == IPPROTO_UDP;
}

std::unexpected<Error> badSockets(std::string_view why) {
  return fail(Code::kInvalid, "opening a door: " + std::string(why));
}

}  // namespace

Result<DoorSockets> takeSockets(const wire::egress::Door& door, std::vector<Fd> fds) {
  const size_t wanted = door.listeners + (door.has_dns ? 1U : 0U) + (door.has_log ? 1U : 0U);
  if (fds.size() != wanted) return badSockets("another number of sockets than named");
  DoorSockets sockets;
  auto next = fds.begin();
  for (uint32_t i = 0; i < door.listeners; ++i) {
    if (!isTcpListener(*next)) return badSockets("a socket is no TCP listener");
    sockets.listeners.push_back(std::move(*next++));
  }
  if (door.has_dns) {
    if (!isUdp(*next)) return badSockets("the socket for look-ups is not UDP");
    sockets.dns = std::move(*next++);
  }
  if (door.has_log) {
    if (socketOption(*next, SO_DOMAIN) != AF_NETLINK) return badSockets("the log is no netlink");
    sockets.log = std::move(*next++);
  }
  return sockets;
}

void resetConnection(boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace cloister::egress

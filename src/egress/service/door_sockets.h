// SPDX-License-Identifier: Apache-2.0
// The sockets of a door as they arrive from the node, and what their other ends see.
#pragma once

#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "wire/egress.h"

namespace cloister::egress {

struct DoorSockets {
  std::vector<Fd> listeners;  // TCP; a connection to port 53 is a look-up
  Fd dns;                     // UDP 53, or none
  Fd log;                     // NETLINK_NETFILTER, or none
};

// Assigns the descriptors of a message in the order of the names in `door`. kInvalid: another
// number, or another kind of socket than the name says.
Result<DoorSockets> takeSockets(const wire::egress::Door& door, std::vector<Fd> fds);

// Closes a connection with a reset, so that the program sees a refusal and no empty answer.
void resetConnection(boost::asio::ip::tcp::socket& socket);

}  // namespace cloister::egress

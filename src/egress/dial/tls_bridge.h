// SPDX-License-Identifier: Apache-2.0
// TLS to a company's proxy, behind a plain socket. The relays wait for sockets without a buffer and
// end them with RST, which a TLS stream cannot offer: it may hold bytes while its socket is silent.
// So the relay keeps a socket, one end of a pair, and the bridge copies between the other end and
// the TLS stream. A loopback connection in place of the pair would take a port, and another process
// could connect first.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "egress/dial/dial.h"

namespace cloister::egress {

struct Bridged {
  boost::asio::ip::tcp::socket socket;  // of the family AF_UNIX: it has no address
  std::shared_ptr<const bool> broken;   // as Dialled::broken
};

// Speaks TLS over `proxy`, whose certificate must be for `upstream.host` and of an authority of
// `upstream.tls`, and starts a bridge. kUnavailable names the fault; `place`, of the sandbox, is
// for the message.
//
// A bridge takes two descriptors more than a plain socket, the buffers of the TLS stream, 64 KiB of
// the kernel's memory each way, and 16 KiB inwards, and outwards while bytes move; a receiver that
// takes nothing stops the sender. The end of one direction is passed
// on, and the other one continues. The bridge ends with both directions, with a fault of either
// side, or when the returned socket is closed: it then has 10 s to send the bytes already taken.
boost::asio::awaitable<Result<Bridged>> bridgeTls(boost::asio::ip::tcp::socket proxy,
                                                  const Upstream& upstream, std::string place,
                                                  base::Monotonic deadline);

}  // namespace cloister::egress

// SPDX-License-Identifier: Apache-2.0
// The client's side of CONNECT (RFC 9110 §9.3.6), over a plain socket or a bridge to TLS
// (tls_bridge.h).
#pragma once

#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/result.h"
#include "egress/dial/dial.h"

namespace cloister::egress {

// kUnavailable: the connection of a sandbox to `place` fails at the proxy.
std::unexpected<Error> refusedByUpstream(const std::string& place, std::string_view cause);

// Asks the proxy at the other end of `socket` for a tunnel to "name:port". Returns the bytes that
// came behind the proxy's answer, which are of the tunnel. kUnavailable: the proxy refused.
boost::asio::awaitable<Result<std::string>> connectThrough(boost::asio::ip::tcp::socket& socket,
                                                           const Upstream& upstream,
                                                           std::string place);

}  // namespace cloister::egress

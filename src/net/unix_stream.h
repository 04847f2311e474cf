// SPDX-License-Identifier: Apache-2.0
// ByteStream over a Unix socket (unix(7)): the transport between the processes of one machine.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "base/result.h"
#include "net/byte_stream.h"

namespace cloister::net {

// On a connected socket. Knows the peer as it was when it connected (SO_PEERCRED).
std::unique_ptr<ByteStream> unixStream(boost::asio::local::stream_protocol::socket socket);

// Connects to the socket at `path`. kInvalid: the path is too long; kUnavailable: nobody listens.
boost::asio::awaitable<Result<std::unique_ptr<ByteStream>>> connectUnix(std::string path);

}  // namespace cloister::net

// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/tunnel.h"

#include <memory>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using Socket = Connection::Socket;
constexpr size_t kBuffer = size_t{128} << 10;  // a third faster than 64 KiB, more brings nothing

enum class Moved : uint8_t { kAll, kEnd, kFailed };  // kAll: what had arrived

// Moves the bytes that have arrived.
Task<Moved> moveArrived(Connection& connection, Socket& from, Socket& to, bool out) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
  for (;;) {
    Connection::Error error;
    const size_t count = from.read_some(asio::buffer(buffer.get(), kBuffer), error);
    if (error == asio::error::would_block) co_return Moved::kAll;
    if (error == asio::error::interrupted) continue;
    if (error) {
      const bool ended = error == asio::error::eof && !connection.brokeOff(from);
      co_return ended ? Moved::kEnd : Moved::kFailed;
    }
    if (!connection.moved(out ? 0 : count, out ? count : 0)) co_return Moved::kFailed;
    if (co_await connection.write(to, {buffer.get(), count})) co_return Moved::kFailed;
    if (count < kBuffer) co_return Moved::kAll;
  }
}

Task<void> pump(Connection& connection, Socket& from, Socket& to, bool out) {
  for (;;) {
    Moved moved = Moved::kFailed;
    if (!connection.over()) moved = co_await moveArrived(connection, from, to, out);
    if (moved == Moved::kAll) {
      const auto [error] =
          co_await from.async_wait(Socket::wait_read, asio::as_tuple(asio::use_awaitable));
      if (!error) continue;
      moved = Moved::kFailed;
    }
    Connection::Error failed;
    if (moved == Moved::kEnd) to.shutdown(Socket::shutdown_send, failed);
    if (moved == Moved::kFailed || failed) connection.reset();
    co_return;
  }
}

}  // namespace

Task<void> tunnel(Connection& connection) {
  using asio::experimental::awaitable_operators::operator&&;
  connection.expireIn(connection.limits().idle);
  co_await (pump(connection, connection.inside(), connection.outside(), true) &&
            pump(connection, connection.outside(), connection.inside(), false));
}

}  // namespace cloister::egress

// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/tunnel.h"

#include <memory>
#include <string>
#include <utility>

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

// One direction through a filter.
class FilteredPump {
 public:
  FilteredPump(Connection& connection, const Standing& standing, const Filters& filters, bool out)
      : connection_(connection), standing_(standing), filters_(filters), out_(out) {}

  Task<void> run(std::string arrived) {
    Socket& from = out_ ? connection_.inside() : connection_.outside();
    Socket& to = out_ ? connection_.outside() : connection_.inside();
    for (bool first = true;; first = false) {
      if (!first || arrived.empty()) {
        const auto [error, count] = co_await connection_.read(from, arrived, kBuffer);
        if (error) co_return connection_.reset();
        if (count == 0) break;
      }
      const bool counted = first && !out_ && !arrived.empty() && !filters_.early.empty();
      if (!counted && !connection_.moved(out_ ? 0 : arrived.size(), out_ ? arrived.size() : 0)) {
        co_return;
      }
      if (!co_await pass(to, arrived)) co_return connection_.reset();
      arrived = {};
    }
    if (co_await connection_.sayEnd(to)) connection_.reset();
  }

 private:
  Task<bool> pass(Socket& to, const std::string& bytes) {
    const Filter& filter = out_ ? filters_.out : filters_.in;
    if (!filter) co_return !co_await connection_.write(to, bytes);
    const auto passed = filter(bytes);
    if (!passed) {
      connection_.refuse(standing_, {.reason = passed.error().message,
                                     .remedy = "Send and ask for what the rule is for.",
                                     .rule = filters_.rule});
      co_return false;
    }
    co_return !co_await connection_.write(to, *passed);
  }

  Connection& connection_;
  const Standing& standing_;
  const Filters& filters_;
  bool out_;
};

}  // namespace

Task<void> tunnel(Connection& connection, Standing standing, Filters filters) {
  using asio::experimental::awaitable_operators::operator&&;
  connection.expireIn(connection.limits().idle);
  FilteredPump out(connection, standing, filters, true);
  FilteredPump in(connection, standing, filters, false);
  co_await (out.run(filters.late) && in.run(filters.early));
}

Task<void> tunnel(Connection& connection) {
  using asio::experimental::awaitable_operators::operator&&;
  connection.expireIn(connection.limits().idle);
  co_await (pump(connection, connection.inside(), connection.outside(), true) &&
            pump(connection, connection.outside(), connection.inside(), false));
}

}  // namespace cloister::egress

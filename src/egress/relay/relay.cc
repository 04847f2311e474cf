// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/relay.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "egress/relay/http_relay.h"
#include "egress/relay/incoming.h"
#include "egress/relay/inspect.h"
#include "egress/relay/tunnel.h"
#include "egress/tls/hello.h"

namespace cloister::egress {
namespace {

using model::Protocol;

std::string placeOf(const Connection& connection) {
  return connection.name() + ":" + std::to_string(connection.port());
}

// Reads until the hello is complete. False: the connection ended, or `fault` says why not.
Task<bool> readHello(Connection& connection, HelloReader& reader, std::string& bytes,
                     std::string& fault) {
  constexpr size_t kPiece = size_t{16} << 10;
  connection.expireIn(connection.limits().greeting);
  reader.feed(bytes);
  while (reader.state() == HelloReader::State::kMore) {
    const size_t have = bytes.size();
    const auto [error, count] = co_await connection.read(connection.inside(), bytes, kPiece);
    if (error || count == 0) co_return false;
    reader.feed(std::string_view(bytes).substr(have));
  }
  if (reader.state() == HelloReader::State::kBad) fault = reader.why();
  co_return fault.empty();
}

// Why the hello does not fit the connection; "": it does.
std::string misfit(const Connection& connection, const Ruling& ruling, const Hello& hello) {
  if (hello.server_name != connection.name()) {
    const std::string named =
        hello.server_name.empty() ? "no server" : "the server " + hello.server_name;
    return "The TLS client names " + named + ", but the connection is to " + placeOf(connection) +
           ".";
  }
  // Nobody but the origin knows the true name of an encrypted hello. The true name does not matter
  // if every name is allowed.
  if (hello.encrypted && (!ruling.anyone || ruling.inspect)) {
    return "The TLS client encrypts the name of the server (ECH), so the rule cannot be held.";
  }
  return "";
}

Task<void> relayTls(Connection& connection, Ruling ruling, std::string bytes) {
  HelloReader reader;
  std::string fault;
  const Standing standing{
      .host = connection.name(), .port = connection.port(), .protocol = Protocol::kTls};
  if (!co_await readHello(connection, reader, bytes, fault)) {
    if (fault.empty()) co_return connection.reset();
    connection.refuse(standing, "The rule is for tls: " + fault,
                      "Speak TLS to this port, or ask for an entry with the protocol tcp.");
    co_return co_await sendAlert(connection, Alert::kDecodeError);
  }
  fault = misfit(connection, ruling, reader.hello());
  if (!fault.empty()) {
    connection.refuse(standing, fault,
                      "Connect to the name that the client means, and switch ECH off.");
    co_return co_await sendAlert(connection, Alert::kAccessDenied);
  }
  ruling = co_await connection.admit(standing);
  if (!ruling.allowed) co_return co_await sendAlert(connection, Alert::kAccessDenied);
  if (ruling.inspect) {
    co_return co_await inspect(connection, std::move(ruling), reader.hello(), std::move(bytes));
  }
  connection.passUnread();
  if (!connection.outside().is_open() && !co_await connection.dial(standing, ruling)) {
    co_return connection.reset();
  }
  const bool within = connection.moved(0, bytes.size());
  if (!within || co_await connection.write(connection.outside(), bytes)) {
    co_return connection.reset();
  }
  reader = {};
  bytes = {};
  co_await tunnel(connection);
}

// Searches the bytes of a sandbox for placeholders, as far as they can be read.
Filter watchFor(std::shared_ptr<const redact::Patterns> placeholders) {
  return [stream = std::make_shared<redact::Stream>(std::move(placeholders))](
             std::string_view bytes) -> Result<std::string> {
    std::ignore = stream->feed(bytes);
    if (stream->hits() == 0) return std::string(bytes);
    return fail(
        Code::kDenied,
        Broker::misplacedIn("a connection of the protocol tcp", stream->firstName()).reason);
  };
}

Task<void> relayTcp(Connection& connection, Ruling ruling, std::string bytes) {
  const Standing standing{
      .host = connection.name(), .port = connection.port(), .protocol = Protocol::kTcp};
  ruling = co_await connection.admit(standing);
  if (!ruling.allowed) co_return connection.reset();
  if (!connection.outside().is_open() && !co_await connection.dial(standing, ruling)) {
    co_return connection.reset();
  }
  const auto secrets = connection.broker();
  if (secrets && secrets->placeholders()) {
    Filters filters{.out = watchFor(secrets->placeholders()),
                    .rule = kPlaceholderRule,
                    .late = std::move(bytes)};
    co_return co_await tunnel(connection, standing, std::move(filters));
  }
  const bool within = connection.moved(0, bytes.size());
  if (!within || co_await connection.write(connection.outside(), bytes)) {
    co_return connection.reset();
  }
  bytes = {};
  co_await tunnel(connection);
}

Task<void> serve(Connection& connection) {
  const Standing standing{.host = connection.name(), .port = connection.port()};
  Ruling ruling = co_await connection.admit(standing);
  if (!ruling.allowed) co_return connection.reset();
  // Each request of HTTP counts instead.
  const bool counted = ruling.protocol == Protocol::kHttp || ruling.inspect;
  if (!counted && !connection.takeRequest(standing, ruling)) {
    co_return connection.reset();
  }
  co_await speak(connection, std::move(ruling), {});
}

}  // namespace

Task<void> speak(Connection& connection, Ruling ruling, std::string arrived) {
  switch (ruling.protocol) {
    case Protocol::kTls:
      co_return co_await relayTls(connection, std::move(ruling), std::move(arrived));
    case Protocol::kTcp:
      co_return co_await relayTcp(connection, std::move(ruling), std::move(arrived));
    case Protocol::kHttp: {
      connection.expireIn(connection.limits().greeting);
      Incoming incoming(connection, std::move(arrived));
      HttpRelay http(connection, incoming, HttpRelay::Kind::kTransparent);
      co_await http.run();
    }
  }
}

Task<void> relay(Inside inside, std::shared_ptr<Guard> guard, Dialler& dialler,
                 const RelayLimits& limits) {
  const auto connection =
      std::make_shared<Connection>(std::move(inside), std::move(guard), dialler, limits);
  co_await watched(connection, serve(*connection));
}

}  // namespace cloister::egress

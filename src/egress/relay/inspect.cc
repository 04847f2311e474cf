// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/inspect.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "egress/relay/h2_relay.h"
#include "egress/relay/http_relay.h"
#include "egress/relay/incoming.h"

namespace cloister::egress {
namespace {

constexpr std::string_view kHttp1 = "http/1.1";
constexpr std::string_view kHttp2 = "h2";

Standing standingOf(const Connection& connection) {
  return {.host = connection.name(), .port = connection.port(), .protocol = model::Protocol::kTls};
}

// The protocols for the origin: the readable ones of the client.
std::vector<std::string> readable(const Hello& hello) {
  if (hello.alpn.empty()) return {std::string(kHttp1)};
  std::vector<std::string> protocols = hello.alpn;
  std::erase_if(protocols,
                [](const std::string& each) { return each != kHttp1 && each != kHttp2; });
  return protocols;
}

Task<void> refuseTls(Connection& connection, std::string reason, std::string remedy, Alert alert) {
  connection.refuse(standingOf(connection), std::move(reason), std::move(remedy));
  co_await sendAlert(connection, alert);
}

std::string remedyFor(const Error& error) {
  if (error.code != Code::kDenied) return "Try again later, or ask for a rule without inspection.";
  return "Connect to a server that the system's authorities or egress.ca_file vouch for, and that "
         "asks for no certificate; or ask for a rule without inspection.";
}

Task<void> serveHttp(Connection& connection) {
  connection.expireIn(connection.limits().greeting);
  Incoming incoming(connection);
  HttpRelay http(connection, incoming, HttpRelay::Kind::kInspected);
  co_await http.run();
}

}  // namespace

Task<void> sendAlert(Connection& connection, Alert alert) {
  constexpr char kAlertRecord = 21;
  constexpr char kFatal = 2;
  const std::string record = {kAlertRecord, 3, 3, 0, 2, kFatal, static_cast<char>(alert)};
  if (co_await connection.write(connection.inside(), record)) co_return;
  Incoming rest(connection);
  co_await rest.linger();
}

Task<void> inspect(Connection& connection, Ruling ruling, Hello hello, std::string arrived) {
  auto protocols = readable(hello);
  if (protocols.empty()) {
    co_return co_await refuseTls(
        connection, "The rule inspects TLS, and the client offers no protocol that can be read.",
        "Speak HTTP/1.1 or HTTP/2, or ask for a rule without inspection.", Alert::kNoProtocol);
  }
  const auto issuer = connection.authority();
  if (!issuer || !issuer->covers(connection.name())) {
    co_return co_await refuseTls(
        connection,
        "The programs of this sandbox trust no authority for " + connection.name() + ".",
        "Start another run or session: its authority covers the names that are inspected by now.",
        Alert::kAccessDenied);
  }
  if (!connection.outside().is_open() &&
      !co_await connection.dial(standingOf(connection), ruling)) {
    co_return connection.reset();
  }
  const auto chosen = co_await connection.secureOutside(std::move(protocols));
  if (connection.over()) co_return;
  if (!chosen) {
    co_return co_await refuseTls(connection, chosen.error().message, remedyFor(chosen.error()),
                                 Alert::kAccessDenied);
  }
  const auto secured =
      co_await connection.secureInside(std::move(arrived), hello.alpn.empty() ? "" : *chosen);
  if (connection.over()) co_return;
  if (!secured) {
    connection.refuse(standingOf(connection), secured.error().message,
                      "Let the program trust the file in SSL_CERT_FILE. A client with a pinned "
                      "certificate cannot be inspected: ask for a rule without inspection.");
    co_return;
  }
  if (*chosen == kHttp2) co_return co_await relayHttp2(connection);
  co_await serveHttp(connection);
}

}  // namespace cloister::egress

// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/proxy.h"

#include <string>
#include <utility>

#include "egress/relay/http_heads.h"
#include "egress/relay/http_relay.h"
#include "egress/relay/incoming.h"
#include "model/network.h"

namespace cloister::egress {
namespace {

// Answers a CONNECT that was refused, or that failed.
Task<void> answer(Connection& connection, Incoming& incoming, const Standing& standing, int status,
                  const Ruling& ruling) {
  const std::string text = ownAnswer({.status = status,
                                      .detail = ruling.reason,
                                      .ruling = &ruling,
                                      .host = standing.host,
                                      .port = standing.port},
                                     false, false);
  if (co_await connection.write(connection.inside(), text)) co_return;
  co_await incoming.linger();
}

Task<void> connectTo(Connection& connection, Incoming& incoming, RequestHead head) {
  constexpr int kForbidden = 403;
  constexpr int kTooMany = 429;
  const Standing standing{.host = head.host, .port = head.port.value_or(0)};
  const auto name = model::hostName(head.host);
  if (!name || *name != head.host) {
    const Ruling why = connection.refuse(
        standing, "CONNECT needs a name in its usual spelling: addresses are never reached.",
        "Use the name of the host.");
    co_return co_await answer(connection, incoming, standing, kForbidden, why);
  }
  Ruling ruling;
  if (!connection.takeRequest(standing, ruling)) {
    co_return co_await answer(connection, incoming, standing, kTooMany, ruling);
  }
  ruling = co_await connection.admit(standing);
  if (connection.over()) co_return;
  if (!ruling.allowed) {
    co_return co_await answer(connection, incoming, standing, kForbidden, ruling);
  }
  const auto dialled = co_await connection.dial(standing, ruling);
  if (connection.over()) co_return;
  if (!dialled) {
    ruling.reason = dialled.error().message;
    co_return co_await answer(connection, incoming, standing, statusOf(dialled.error()), ruling);
  }
  connection.redirect(standing.host, standing.port);
  constexpr std::string_view kEstablished = "HTTP/1.1 200 Connection established\r\n\r\n";
  if (co_await connection.write(connection.inside(), kEstablished)) co_return connection.reset();
  co_await speak(connection, std::move(ruling), incoming.takeRest());
}

Task<void> serveProxy(Connection& connection) {
  connection.expireIn(connection.limits().greeting);
  Incoming incoming(connection);
  auto head = co_await incoming.head();
  if (head && head->form == TargetForm::kAuthority) {
    co_return co_await connectTo(connection, incoming, *std::move(head));
  }
  HttpRelay http(connection, incoming, HttpRelay::Kind::kProxy);
  co_await http.run(std::move(head));
}

}  // namespace

Task<void> proxy(Inside inside, std::shared_ptr<Guard> guard, Dialler& dialler,
                 const RelayLimits& limits) {
  const auto connection =
      std::make_shared<Connection>(std::move(inside), std::move(guard), dialler, limits);
  co_await watched(connection, serveProxy(*connection));
}

}  // namespace cloister::egress

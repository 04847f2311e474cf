// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/node_link.h"

#include <algorithm>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/clock.h"
#include "base/log.h"

namespace cloister::orchestrator {
namespace {

namespace asio = boost::asio;
constexpr Millis kFirstPause{5};
constexpr Millis kLongestPause{2'000};

// Keeps a connection until its end; false without a connection.
Task<bool> connectOnce(Nodes& nodes, std::string socket_path, runtime::Silence silence,
                       bool first_attempt) {
  auto node = co_await runtime::connectNode(std::move(socket_path), std::move(silence));
  if (!node) {
    base::log(first_attempt ? base::Level::kWarn : base::Level::kDebug, "node not reached",
              {{"reason", node.error().message}});
    co_return false;
  }
  runtime::RemoteNode& connected = **node;
  const std::string name = connected.offer().node;
  base::log(base::Level::kInfo, "node connected",
            {{"node", name}, {"sandboxes", std::to_string(connected.offer().max_sandboxes)}});
  nodes.set({&connected, connected.offer()});
  connected.onOffer([&] { nodes.set({&connected, connected.offer()}); });
  co_await connected.closed();
  nodes.set({});
  base::log(base::Level::kWarn, "node lost", {{"node", name}});
  co_return true;
}

}  // namespace

Task<void> keepConnected(Nodes& nodes, std::string socket_path, runtime::Silence silence) {
  const auto executor = co_await asio::this_coro::executor;
  Millis pause = kFirstPause;
  bool first_attempt = true;
  while (true) {
    const bool connected = co_await connectOnce(nodes, socket_path, silence, first_attempt);
    first_attempt = connected;
    pause = connected ? kFirstPause : std::min(pause + pause / 4 + Millis(1), kLongestPause);
    asio::steady_timer timer(executor, pause);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
#include "node/server.h"

#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/file.h"
#include "base/log.h"
#include "net/unix_stream.h"
#include "node/session.h"

namespace cloister::node {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;
constexpr size_t kMaxSocketPath = 107;  // sun_path, unix(7)

// No client may connect before mode and group are set, so listen(2) comes last.
Result<stream_protocol::acceptor> listenAt(const asio::any_io_executor& executor,
                                           const ServerConfig& config) {
  const std::string doing = "listening at " + config.socket;
  if (config.socket.size() > kMaxSocketPath) return fail(Code::kInvalid, doing + ": path too long");
  std::error_code ignored;
  std::filesystem::remove(config.socket, ignored);
  stream_protocol::acceptor acceptor(executor);
  boost::system::error_code error;
  acceptor.open(stream_protocol(), error);
  if (!error) acceptor.bind(stream_protocol::endpoint(config.socket), error);
  if (error) return fail(Code::kInternal, doing + ": " + error.message());
  std::error_code mode_error;
  std::filesystem::permissions(config.socket, static_cast<std::filesystem::perms>(0660),
                               mode_error);
  if (mode_error) return fail(Code::kInternal, doing + ": " + mode_error.message());
  if (config.control_gid != UINT32_MAX &&
      ::chown(config.socket.c_str(), static_cast<uid_t>(-1), config.control_gid) != 0) {
    return failErrno(doing + ": chown");
  }
  acceptor.listen(stream_protocol::acceptor::max_listen_connections, error);
  if (error) return fail(Code::kInternal, doing + ": " + error.message());
  return acceptor;
}

Result<> renewKey(const ServerConfig& config, PermitGate& gate) {
  if (config.key_path.empty()) return {};
  std::string text = TRY(base::readFile(config.key_path, 4096));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  gate.trust(TRY(base::VerifyKey::fromBase64(text)));
  return {};
}

struct Server {
  ServerConfig config;
  PermitGate& gate;
  Runtimes runtimes;
  bool busy = false;  // a control plane is connected, or its sandboxes have a moment to go
  std::vector<std::weak_ptr<Session>> ended{};  // may still hold sandboxes

  // Number of sandboxes of disconnected control planes.
  [[nodiscard]] size_t held() const {
    size_t count = 0;
    for (const auto& each : ended) {
      if (const auto session = each.lock()) count += session->held();
    }
    return count;
  }
};

Result<> admitPeer(Server& server, const net::ByteStream& peer) {
  TRY(checkPeer(peer, server.config.control_uid));
  if (server.busy) return fail(Code::kConflict, "another control plane is connected");
  if (server.held() >= server.config.offer.max_sandboxes) {
    return fail(Code::kConflict, "all sandboxes of the last control plane are still being removed");
  }
  return renewKey(server.config, server.gate);
}

}  // namespace

Result<> checkPeer(const net::ByteStream& stream, uint32_t control_uid) {
  const auto peer = stream.peer();
  if (!peer) return fail(Code::kDenied, "the transport does not name the user at its other end");
  if (peer->uid == 0 || peer->uid == control_uid) return {};
  return fail(Code::kDenied, "uid " + std::to_string(peer->uid) + " is not the control plane");
}

asio::awaitable<Result<>> serve(ServerConfig config, PermitGate& gate,
                                std::map<std::string, runtime::Runtime*> runtimes) {
  const auto executor = co_await asio::this_coro::executor;
  const auto server =
      std::make_shared<Server>(Server{std::move(config), gate, std::move(runtimes)});
  auto acceptor = CO_TRY(listenAt(executor, server->config));
  while (true) {
    auto [error, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (error) {
      // For example, out of descriptors: wait instead of spinning.
      base::log(base::Level::kError, "accept failed", {{"reason", error.message()}});
      asio::steady_timer pause(executor, std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
      continue;
    }
    auto stream = net::unixStream(std::move(socket));
    if (const auto admitted = admitPeer(*server, *stream); !admitted) {
      base::log(base::Level::kWarn, "connection refused", {{"reason", admitted.error().message}});
      continue;
    }
    server->busy = true;
    const auto session =
        std::make_shared<Session>(std::move(stream), server->config, gate, server->runtimes,
                                  [server] { return server->held(); });
    base::log(base::Level::kInfo, "control plane connected");
    asio::co_spawn(executor, session->run(), [server, session](const std::exception_ptr&) {
      server->busy = false;
      std::erase_if(server->ended, [](const auto& each) { return each.expired(); });
      server->ended.push_back(session);
    });
  }
}

}  // namespace cloister::node

// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "async/spawn.h"
#include "base/log.h"
#include "base/network.h"
#include "rpc/services.h"

namespace cloister::rpc {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kUnix = "unix:";
constexpr size_t kMaxSocket = 107;  // sockaddr_un
constexpr Millis kLook{1'000};      // at the service
constexpr Millis kLookAnswer{3'000};

bool isLoopback(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") return true;
  const auto address = base::Address::parse(host);
  const auto local = base::Network::parse("127.0.0.0/8");
  return address && (*address == base::Address::parse("::1") || local->contains(*address));
}

Result<> checkListen(const Settings& settings) {
  const std::string& listen = settings.listen;
  if (listen.starts_with(kUnix)) {
    const std::string_view path = std::string_view(listen).substr(kUnix.size());
    if (path.starts_with('/') && path.size() <= kMaxSocket) return {};
    return fail(Code::kInvalid, "--listen: must name a UNIX socket by its absolute path", "listen");
  }
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == listen.size()) {
    return fail(Code::kInvalid, "--listen: must be HOST:PORT or unix:/path", "listen");
  }
  const bool plain = settings.tls_certificate.empty();
  if (!plain || settings.insecure || isLoopback(std::string_view(listen).substr(0, colon))) {
    return {};
  }
  return fail(Code::kInvalid,
              "--listen: " + listen +
                  " is no address of loopback, and keys would travel unencrypted: give "
                  "--tls-certificate and --tls-key, or --insecure behind a proxy with TLS",
              "listen");
}

std::shared_ptr<grpc::ServerCredentials> credentialsOf(const Settings& settings) {
  if (settings.tls_certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({settings.tls_key, settings.tls_certificate});
  return grpc::SslServerCredentials(options);
}

void setBounds(const Bounds& bounds, grpc::ServerBuilder& builder) {
  const int message = static_cast<int>(bounds.message_bytes);
  const int ping = static_cast<int>(bounds.keepalive.count());
  constexpr int kPingAnswerMs = 20'000;
  constexpr int kBetweenPingsMs = 10'000;  // of a client, at least
  builder.SetMaxReceiveMessageSize(message);
  builder.SetMaxSendMessageSize(message);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, bounds.streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ping);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingAnswerMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kBetweenPingsMs);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Of all connections and streams together, also before a key is looked at.
  constexpr size_t kLeastMemory = size_t{1} << 30;
  constexpr size_t kLargestMessages = 8;
  grpc::ResourceQuota memory("cloister-grpc");
  memory.Resize(std::max(kLeastMemory, kLargestMessages * bounds.message_bytes));
  builder.SetResourceQuota(memory);
  // A small compressed message could become a huge one.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

}  // namespace

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  Impl(asio::io_context& on, Settings of, net::Url api, asio::ssl::context tls)
      : io(on),
        settings(std::move(of)),
        calls(io.get_executor(), settings.bounds.calls, settings.bounds.stall),
        upstream(std::move(api), std::move(tls), settings.bounds.message_bytes),
        next_look(io),
        end_of_grace(io) {
    const Parts parts{calls, upstream};
    services.push_back(executions(parts));
    services.push_back(sessions(parts));
    services.push_back(files(parts));
    services.push_back(escalations(parts));
    services.push_back(operations(parts));
  }

  Result<> listen() {
    TRY(checkListen(settings));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    setBounds(settings.bounds, builder);
    int port = 0;
    builder.AddListeningPort(settings.listen, credentialsOf(settings), &port);
    for (const auto& service : services)
      builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    if (!server || port == 0) {
      return fail(Code::kUnavailable, "listening on " + settings.listen +
                                          ": the address is not free, or the certificate and its "
                                          "key cannot be used");
    }
    server->GetHealthCheckService()->SetServingStatus(false);
    address = settings.listen;
    if (!address.starts_with(kUnix)) {
      address = address.substr(0, address.rfind(':') + 1) + std::to_string(port);
    }
    return {};
  }

  Task<bool> looksReady() {
    const auto call = calls.ours();
    Exchange exchange(upstream, *call);
    const auto deadline = base::monotonicNow() + kLookAnswer;
    const auto head = co_await exchange.open({.target = "/readyz", .key = false}, deadline);
    if (!head) co_return false;
    const auto body = co_await exchange.rest(deadline);
    co_return body && head->status == 200;
  }

  // Says whether the service is ready, until stop().
  Task<void> look(std::shared_ptr<Impl> self) {
    bool before = false;
    while (!stopping) {
      const bool ready = co_await looksReady();
      if (stopping) break;
      server->GetHealthCheckService()->SetServingStatus(ready);
      if (std::exchange(before, ready) != ready) {
        base::log(base::Level::kInfo, ready ? "the service is ready" : "the service is not ready");
      }
      next_look.expires_after(kLook);
      boost::system::error_code error;
      co_await next_look.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    self.reset();
  }

  void stop() {
    if (std::exchange(stopping, true)) return;
    next_look.cancel();
    server->GetHealthCheckService()->SetServingStatus(false);
    const auto self = shared_from_this();
    async::spawn(io.get_executor(), endCalls(self));
    // Waits for all calls, so it has a thread of its own.
    closing = std::thread([self] {
      constexpr Millis kLast{2'000};  // to send the last answers after the grace
      self->server->Shutdown(std::chrono::system_clock::now() + self->settings.bounds.grace +
                             kLast);
      asio::post(self->io, [self] { self->io.stop(); });
    });
  }

  Task<void> endCalls(std::shared_ptr<Impl> self) {
    end_of_grace.expires_after(settings.bounds.grace);
    boost::system::error_code error;
    co_await end_of_grace.async_wait(asio::redirect_error(asio::use_awaitable, error));
    calls.stop();
    self.reset();
  }

  asio::io_context& io;
  Settings settings;
  Calls calls;
  Upstream upstream;
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<grpc::Server> server;
  std::string address;
  asio::steady_timer next_look;
  asio::steady_timer end_of_grace;
  std::thread closing;
  bool stopping = false;
};

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  if (impl_->closing.joinable()) impl_->closing.join();
}

Result<std::unique_ptr<Server>> Server::start(asio::io_context& io, Settings settings, net::Url api,
                                              asio::ssl::context tls) {
  auto impl = std::make_shared<Impl>(io, std::move(settings), std::move(api), std::move(tls));
  TRY(impl->listen());
  async::spawn(io.get_executor(), impl->look(impl));
  return std::unique_ptr<Server>(new Server(impl));
}

const std::string& Server::address() const {
  return impl_->address;
}

void Server::stop() {
  impl_->stop();
}

}  // namespace cloister::rpc

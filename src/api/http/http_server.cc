// SPDX-License-Identifier: Apache-2.0
#include "api/http/http_server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "api/http/http_connection.h"
#include "api/http/problem.h"
#include "base/log.h"

namespace cloister::api {
namespace {

namespace asio = boost::asio;
using Protocol = asio::generic::stream_protocol;
using Endpoint = Protocol::endpoint;
using Acceptor = asio::basic_socket_acceptor<Protocol>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr Millis kAcceptBackOff{50};
constexpr Millis kStopPoll{20};
constexpr int kUserTimeoutMillis = 60'000;
// The kernel holds a stream's unsent bytes; a larger buffer would only hide a slow reader.
constexpr int kSendBuffer = 128 << 10;
constexpr std::string_view kBusy =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    "Connection: close\r\n\r\n";

template <int kLevel, int kName>
using IntOption = asio::detail::socket_option::integer<kLevel, kName>;

Result<asio::ip::tcp::endpoint> parseTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(host, error);
  uint16_t port = 0;
  const char* end = address.data() + address.size();
  std::from_chars_result parsed{address.data(), std::errc::invalid_argument};
  if (colon != std::string::npos) {
    parsed = std::from_chars(address.data() + colon + 1, end, port);
  }
  if (error || parsed.ec != std::errc() || parsed.ptr != end) {
    return fail(Code::kInvalid,
                "listening on " + address + ": must be ADDRESS:PORT, localhost:PORT or unix:/PATH");
  }
  return asio::ip::tcp::endpoint(ip, port);
}

// The address in the form of listen(), and whether only this machine can connect.
std::pair<std::string, bool> describe(const Endpoint& endpoint) {
  if (endpoint.protocol().family() == AF_UNIX) {
    asio::local::stream_protocol::endpoint local;
    std::memcpy(local.data(), endpoint.data(), std::min(endpoint.size(), local.capacity()));
    local.resize(std::min(endpoint.size(), local.capacity()));
    return {"unix:" + local.path(), true};
  }
  asio::ip::tcp::endpoint tcp;
  std::memcpy(tcp.data(), endpoint.data(), std::min(endpoint.size(), tcp.capacity()));
  const std::string host =
      tcp.address().is_v6() ? "[" + tcp.address().to_string() + "]" : tcp.address().to_string();
  return {host + ":" + std::to_string(tcp.port()), tcp.address().is_loopback()};
}

void tune(Socket& socket) {
  boost::system::error_code ignored;  // a Unix socket has none of TCP's options
  socket.set_option(IntOption<IPPROTO_TCP, TCP_NODELAY>(1), ignored);
  socket.set_option(IntOption<IPPROTO_TCP, TCP_USER_TIMEOUT>(kUserTimeoutMillis), ignored);
  socket.set_option(IntOption<SOL_SOCKET, SO_KEEPALIVE>(1), ignored);
  socket.set_option(IntOption<SOL_SOCKET, SO_SNDBUF>(kSendBuffer), ignored);
}

}  // namespace

// A page from inside a session has an origin of its own. The link alone decides about its rights.
bool isPortLink(const Request& request) {
  if (request.at_port) return true;
  const std::vector<std::string>& path = request.path;
  return path.size() > 5 && path[0] == "v1" && path[1] == "sessions" && path[3] == "ports" &&
         path[4].contains('~');
}

std::optional<Response> checkOrigin(const Request& request, const WebNames& names) {
  const std::string host = lowerCase(request.header("host"));
  const std::string origin = lowerCase(request.header("origin"));
  const bool own =
      origin == "http://" + host || origin == "https://" + host || origin == request.origin;
  if (!isPortLink(request) && !origin.empty() && !own && !isListedOrigin(request, names)) {
    return problem(403,
                   "Origin: another site's pages may not use this service; api.cors_origins "
                   "lists those that may");
  }
  if (!request.local || host.empty() || request.at_port) return std::nullopt;
  static const std::vector<std::string> loopback = {"localhost", "127.0.0.1", "[::1]"};
  const std::string_view name = hostOf(host);
  const auto is = [&](const std::string& known) { return lowerCase(known) == name; };
  if (std::ranges::any_of(loopback, is) || std::ranges::any_of(names.hosts, is))
    return std::nullopt;
  return problem(421, "Host: not a name of this service; configure it or use localhost");
}

std::optional<Response> lookAtNames(Request& request, const WebNames& names) {
  noteWayHere(request, names);
  request.at_port = hostPortOf(request.header("host"), names.ports_domain);
  if (auto refused = checkOrigin(request, names)) return refused;
  if (request.at_port || !isListedOrigin(request, names)) return std::nullopt;
  // Another origin's page shows a credential of its own, never a cookie of the service.
  std::erase_if(request.headers, [](const auto& each) { return each.name == "cookie"; });
  return preflightAnswer(request, names);
}

Response readableTo(const Request& request, const WebNames& names, Response response) {
  if (!isPortLink(request)) allowToRead(request, names, response);
  return response;
}

struct HttpServer::Impl : std::enable_shared_from_this<HttpServer::Impl> {
  struct Listener {
    Acceptor acceptor;
    std::string mount = {};
    bool local = false;
    bool secure = false;
  };

  asio::any_io_executor executor;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::vector<std::unique_ptr<Listener>> listeners;
  std::unique_ptr<ServerTls> tls;
  asio::steady_timer look_timer;
  bool gone = false;  // the server is gone, but coroutines may still have Shared

  explicit Impl(asio::any_io_executor e) : executor(std::move(e)), look_timer(executor) {}

  // Ends answers to credentials that no longer stand.
  void lookAtCredentials() {
    std::map<auth::Credential, bool> known;
    std::vector<std::shared_ptr<Connection>> lost;
    for (Connection* connection : shared->answering) {
      const auth::Credential& credential = connection->credential();
      const auto [found, is_new] = known.try_emplace(credential, true);
      if (is_new) found->second = shared->handler->stands(credential);
      if (!found->second) lost.push_back(connection->shared_from_this());
    }
    for (const auto& connection : lost)
      connection->credentialLost();
    shared->handler->looked();
  }

  // Also during a stop: answers may then last as long as the running programs.
  Task<void> lookRegularly() {
    const auto self = shared_from_this();
    while (!gone && (!shared->stopping || shared->open > 0)) {
      look_timer.expires_after(kCredentialLook);
      const auto [error] = co_await look_timer.async_wait(kTuple);
      if (!error) lookAtCredentials();
    }
  }

  Result<std::string> add(std::unique_ptr<Listener> listener) {
    boost::system::error_code error;
    const Endpoint endpoint = listener->acceptor.local_endpoint(error);
    if (error) return fail(Code::kInvalid, "listening: not a bound socket: " + error.message());
    auto [address, local] = describe(endpoint);
    listener->local = local;
    listener->secure = tls != nullptr && endpoint.protocol().family() != AF_UNIX;
    listeners.push_back(std::move(listener));
    return address;
  }

  Result<std::string> bind(const std::string& address, const Endpoint& endpoint,
                           const std::string& mount) {
    auto listener = std::make_unique<Listener>(Acceptor(executor), mount);
    Acceptor& acceptor = listener->acceptor;
    boost::system::error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return fail(Code::kUnavailable, "listening on " + address + ": " + error.message());
    }
    return add(std::move(listener));
  }

  Task<void> acceptLoop(Listener& listener) {
    const auto self = shared_from_this();
    asio::steady_timer timer(executor);
    while (!shared->stopping) {
      auto [error, socket] = co_await listener.acceptor.async_accept(kTuple);
      if (error == asio::error::operation_aborted || shared->stopping) co_return;
      if (error) {
        // Out of descriptors or memory: make room, and do not spin.
        evict();
        timer.expires_after(kAcceptBackOff);
        co_await timer.async_wait(kTuple);
        continue;
      }
      admit(std::move(socket), listener);
    }
  }

  void admit(Socket socket, const Listener& listener) {
    if (shared->open >= shared->limits.connections && !evict()) {
      if (listener.secure) return;
      boost::system::error_code ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(kBusy), ignored);
      return;
    }
    tune(socket);
    auto connection = std::make_shared<Connection>(
        shared, std::move(socket), Connection::Origin{listener.mount, listener.local},
        listener.secure ? tls->context() : nullptr);
    asio::co_spawn(executor, [connection] { return connection->run(); }, asio::detached);
  }

  bool evict() {
    if (shared->waiting.empty()) return false;
    shared->waiting.front()->close();
    return true;
  }
};

HttpServer::HttpServer(asio::any_io_executor executor, HttpLimits limits, WebNames names,
                       std::unique_ptr<ServerTls> tls)
    : impl_(std::make_shared<Impl>(std::move(executor))) {
  impl_->tls = std::move(tls);
  impl_->shared->limits = limits;
  impl_->shared->bodies = orchestrator::FairShare(limits.fairness, limits.body_bytes);
  impl_->shared->names = std::move(names);
}

HttpServer::~HttpServer() {
  impl_->gone = true;
  impl_->shared->stopping = true;
  impl_->look_timer.cancel();
  boost::system::error_code ignored;
  for (auto& listener : impl_->listeners)
    listener->acceptor.close(ignored);
  while (impl_->evict()) {
  }
}

Result<std::string> HttpServer::listen(const std::string& address, const std::string& mount) {
  if (!address.starts_with("unix:")) {
    return impl_->bind(address, Endpoint(TRY(parseTcp(address))), mount);
  }
  const std::string path = address.substr(5);
  asio::local::stream_protocol::endpoint endpoint;
  if (path.empty() || path.size() >= endpoint.capacity() - sizeof(sa_family_t)) {
    return fail(Code::kInvalid, "listening on " + address + ": the path is empty or too long");
  }
  std::error_code ignored;
  if (std::filesystem::is_socket(path, ignored)) std::filesystem::remove(path, ignored);
  endpoint.path(path);
  return impl_->bind(address, Endpoint(endpoint), mount);
}

Result<std::string> HttpServer::adopt(Fd listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return failErrno("adopting a listening socket");
  }
  auto own = std::make_unique<Impl::Listener>(Acceptor(impl_->executor));
  boost::system::error_code error;
  own->acceptor.assign(Protocol(address.ss_family, 0), listener.get(), error);
  if (error) return fail(Code::kInvalid, "adopting a listening socket: " + error.message());
  static_cast<void>(listener.release());
  return impl_->add(std::move(own));
}

std::optional<int64_t> HttpServer::certificateExpires() const {
  if (!impl_->tls) return std::nullopt;
  return impl_->tls->expires();
}

bool HttpServer::allLocal() const {
  return std::ranges::all_of(impl_->listeners, [](const auto& each) { return each->local; });
}

void HttpServer::start(HttpHandler& handler) {
  impl_->shared->handler = &handler;
  for (auto& listener : impl_->listeners) {
    asio::co_spawn(impl_->executor, impl_->acceptLoop(*listener), asio::detached);
  }
  asio::co_spawn(impl_->executor, impl_->lookRegularly(), asio::detached);
}

void HttpServer::lookAtCredentials() {
  if (impl_->shared->handler != nullptr) impl_->lookAtCredentials();
}

Task<void> HttpServer::stop(Millis grace) {
  const auto impl = impl_;
  impl->shared->stopping = true;
  boost::system::error_code ignored;
  for (auto& listener : impl->listeners)
    listener->acceptor.close(ignored);
  while (impl->evict()) {
  }
  const base::Monotonic until = base::monotonicNow() + grace;
  asio::steady_timer timer(impl->executor);
  while (impl->shared->open > 0 && base::monotonicNow() < until) {
    timer.expires_after(kStopPoll);
    co_await timer.async_wait(kTuple);
    while (impl->evict()) {
    }
  }
  if (impl->shared->open == 0) impl->look_timer.cancel();
}

}  // namespace cloister::api

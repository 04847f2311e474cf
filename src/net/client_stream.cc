// SPDX-License-Identifier: Apache-2.0
#include "net/client_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <tuple>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <openssl/err.h>

#include "net/tls_session.h"

namespace cloister::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Protocol = asio::generic::stream_protocol;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

}  // namespace

struct ClientStream::State : std::enable_shared_from_this<State> {
  explicit State(const asio::any_io_executor& executor) : socket(executor), timer(executor) {}

  static Error timeout() { return make_error_code(boost::beast::error::timeout); }

  // Bounds the next operation. An operation that the deadline ends has the deadline's error.
  void arm() {
    late = false;
    if (deadline == base::Monotonic::max()) return;
    timer.expires_at(deadline);
    timer.async_wait([weak = weak_from_this()](Error error) {
      const auto state = weak.lock();
      // The deadline was moved just as the timer fired, so the deadline has not passed.
      if (error || !state || state->timer.expiry() > base::monotonicNow()) return;
      state->late = true;
      state->socket.cancel(error);
    });
  }

  Error disarmed(Error error) {
    timer.expires_at(base::Monotonic::max());
    return error && late ? timeout() : error;
  }

  asio::awaitable<Error> connect(Endpoint endpoint) {
    Error error;
    tls.reset();
    socket.close(error);
    error = open(endpoint.protocol());
    if (error) co_return error;
    arm();
    std::tie(error) = co_await socket.async_connect(endpoint, kAwait);
    co_return disarmed(error);
  }

  // Asio's own sockets are inherited by started programs.
  Error open(const Protocol& protocol) {
    base::Fd made(::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC, protocol.protocol()));
    if (!made) return {errno, boost::system::system_category()};
    return adopt(protocol, std::move(made));
  }

  Error adopt(const Protocol& protocol, base::Fd made) {
    Error error;
    socket.assign(protocol, made.get(), error);
    if (error) return error;
    std::ignore = made.release();
    socket.non_blocking(true, error);
    Error ignored;
    if (protocol.family() != AF_UNIX) socket.set_option(tcp::no_delay(true), ignored);
    return error;
  }

  // Waits until the socket is ready. Giving up the wait loses no bytes.
  asio::awaitable<Error> ready(Protocol::socket::wait_type what) {
    if (deadline != base::Monotonic::max() && base::monotonicNow() >= deadline) co_return timeout();
    arm();
    const auto [error] = co_await socket.async_wait(what, kAwait);
    co_return disarmed(error);
  }

  asio::awaitable<Error> ready(TlsSession::Wait what) {
    const bool to_read = what == TlsSession::Wait::kRead;
    return ready(to_read ? Protocol::socket::wait_read : Protocol::socket::wait_write);
  }

  // Repeats `step` of the session until the step is done. A peer with bytes at all times holds up
  // nobody else.
  template <class Step>
  asio::awaitable<TlsSession::Step> overTls(Step step) {
    for (;;) {
      if (!tls) co_return TlsSession::Step{.error = asio::error::operation_aborted};
      TlsSession::Step done = step(*tls);
      if (done.wait == TlsSession::Wait::kNone) {
        co_await pause();
        co_return done;
      }
      done.error = co_await ready(done.wait);
      if (done.error) co_return done;
    }
  }

  asio::awaitable<void> pause() {
    constexpr int kAtOnce = 16;
    if (++at_once % kAtOnce == 0) co_await asio::post(socket.get_executor(), asio::use_awaitable);
  }

  // Does `step` on the socket itself.
  template <class Step>
  asio::awaitable<std::pair<Error, size_t>> plain(Protocol::socket::wait_type what, Step step) {
    for (;;) {
      Error error;
      const size_t n = step(socket, error);
      if (error != asio::error::would_block && error != asio::error::interrupted) {
        co_await pause();
        co_return std::pair(error, n);
      }
      error = co_await ready(what);
      if (error) co_return std::pair(error, size_t{0});
    }
  }

  Protocol::socket socket;
  std::unique_ptr<TlsSession> tls;
  asio::steady_timer timer;
  base::Monotonic deadline = base::Monotonic::max();
  bool late = false;
  int at_once = 0;
  std::string host;  // of the certificate
};

namespace {

// A look-up of a name. Nothing interrupts a look-up (getaddrinfo(3)).
struct LookUp {
  explicit LookUp(const asio::any_io_executor& executor) : resolver(executor), ended(executor) {}

  tcp::resolver resolver;
  asio::steady_timer ended;  // is cancelled then
  bool done = false;
  boost::system::error_code error;
  std::vector<ClientStream::Endpoint> found;
};

asio::awaitable<std::shared_ptr<LookUp>> lookUp(asio::any_io_executor executor, std::string host,
                                                std::string port, base::Monotonic deadline) {
  const auto look_up = std::make_shared<LookUp>(executor);
  boost::system::error_code no_address;
  const asio::ip::address address = asio::ip::make_address(host, no_address);
  uint16_t number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (!no_address && parsed.ec == std::errc() && parsed.ptr == port.data() + port.size()) {
    look_up->found.emplace_back(tcp::endpoint(address, number));
    co_return look_up;
  }
  look_up->resolver.async_resolve(
      host, port, [look_up](boost::system::error_code error, tcp::resolver::results_type found) {
        look_up->done = true;
        look_up->error = error;
        for (const auto& entry : found)
          look_up->found.emplace_back(entry.endpoint());
        look_up->ended.cancel();
      });
  look_up->ended.expires_at(deadline);
  co_await look_up->ended.async_wait(kAwait);
  if (!look_up->done) look_up->error = make_error_code(boost::beast::error::timeout);
  co_return look_up;
}

}  // namespace

ClientStream::ClientStream(asio::any_io_executor executor)
    : state_(std::make_shared<State>(executor)) {}
ClientStream::ClientStream(asio::any_io_executor executor, Endpoint::protocol_type protocol,
                           base::Fd socket)
    : ClientStream(std::move(executor)) {
  std::ignore = state_->adopt(protocol, std::move(socket));
}
ClientStream::~ClientStream() = default;
ClientStream::ClientStream(ClientStream&&) noexcept = default;
ClientStream& ClientStream::operator=(ClientStream&&) noexcept = default;

void ClientStream::expiresAt(base::Monotonic deadline) {
  state_->deadline = deadline;
}

void ClientStream::expiresNever() {
  state_->deadline = base::Monotonic::max();
}

asio::awaitable<ClientStream::Error> ClientStream::connect(const std::string& host,
                                                           const std::string& port) {
  const auto state = state_;
  const auto look_up = co_await lookUp(state->socket.get_executor(), host, port, state->deadline);
  Error error = look_up->error;
  if (error) co_return error;
  error = asio::error::not_found;
  for (const Endpoint& endpoint : look_up->found) {
    if (base::monotonicNow() >= state->deadline) co_return State::timeout();
    error = co_await state->connect(endpoint);
    if (!error) break;
  }
  co_return error;
}

asio::awaitable<ClientStream::Error> ClientStream::connect(const std::string& path) {
  const auto state = state_;
  co_return co_await state->connect(asio::local::stream_protocol::endpoint(path));
}

asio::awaitable<ClientStream::Error> ClientStream::connect(Endpoint endpoint) {
  const auto state = state_;
  co_return co_await state->connect(endpoint);
}

asio::awaitable<ClientStream::Error> ClientStream::secure(asio::ssl::context& tls,
                                                          const std::string& host) {
  const auto state = state_;
  state->host = host;
  state->tls = TlsSession::make(tls.native_handle(), host, state->socket.native_handle());
  if (!state->tls) co_return asio::error::invalid_argument;  // TLS cannot send this name
  const auto done = co_await state->overTls([](TlsSession& at) { return at.handshake(); });
  co_return done.error;
}

bool ClientStream::secured() const {
  return state_->tls != nullptr;
}

std::string ClientStream::certificateFault() const {
  return state_->tls ? state_->tls->certificateFault() : "";
}

std::string ClientStream::tlsFault(const Error& error) const {
  std::string certificate = certificateFault();
  if (state_->tls && state_->tls->isForAnother()) certificate = "it is not for " + state_->host;
  // OpenSSL's first error may be of a place without authorities, which is no fault.
  return "TLS: " +
         (certificate.empty() ? error.message() : "certificate verify failed: " + certificate);
}

asio::awaitable<std::pair<ClientStream::Error, size_t>> ClientStream::read(
    asio::mutable_buffer into) {
  const auto state = state_;
  if (!state->tls) {
    co_return co_await state->plain(
        Protocol::socket::wait_read,
        [into](Protocol::socket& socket, Error& error) { return socket.read_some(into, error); });
  }
  const auto done = co_await state->overTls(
      [into](TlsSession& tls) { return tls.read(into.data(), into.size()); });
  co_return std::pair(done.error, done.bytes);
}

asio::awaitable<ClientStream::Error> ClientStream::write(asio::const_buffer from) {
  const auto state = state_;
  while (from.size() > 0) {
    std::pair<Error, size_t> moved;
    if (state->tls) {
      const auto done = co_await state->overTls(
          [from](TlsSession& tls) { return tls.write(from.data(), from.size()); });
      moved = {done.error, done.bytes};
    } else {
      moved = co_await state->plain(Protocol::socket::wait_write,
                                    [from](Protocol::socket& socket, Error& error) {
                                      return socket.write_some(from, error);
                                    });
    }
    if (moved.first) co_return moved.first;
    from += moved.second;
  }
  co_return Error();
}

asio::awaitable<ClientStream::Error> ClientStream::sayEnd() {
  const auto state = state_;
  Error error;
  if (state->tls) {
    error = (co_await state->overTls([](TlsSession& tls) { return tls.sayEnd(); })).error;
  } else {
    state->socket.shutdown(Protocol::socket::shutdown_send, error);
  }
  co_return error;
}

void ClientStream::close() {
  Error ignored;
  state_->tls.reset();
  state_->socket.close(ignored);
}

base::Fd ClientStream::release() && {
  Error ignored;
  state_->tls.reset();
  return base::Fd(state_->socket.release(ignored));
}

ClientStream ClientStream::movedTo(asio::any_io_executor executor) && {
  Error error;
  const auto local = state_->socket.local_endpoint(error);
  std::unique_ptr<TlsSession> tls = std::move(state_->tls);
  ClientStream moved(std::move(executor), local.protocol(), std::move(*this).release());
  // The session's socket is the same descriptor, unless the executor could not take the socket.
  if (moved.state_->socket.is_open()) moved.state_->tls = std::move(tls);
  return moved;
}

std::string causeOf(const ClientStream::Error& error) {
  if (error.category() != asio::error::get_ssl_category()) return error.message();
  const char* reason = ERR_reason_error_string(static_cast<uint32_t>(error.value()));
  return std::string("TLS: ") + (reason == nullptr ? "it failed" : reason);
}

}  // namespace cloister::net

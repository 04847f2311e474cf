// SPDX-License-Identifier: Apache-2.0
#include "net/client_stream.h"

#include <optional>
#include <tuple>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/ssl/verify_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <openssl/x509_vfy.h>

namespace cloister::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Protocol = asio::generic::stream_protocol;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

}  // namespace

struct ClientStream::State {
  explicit State(const asio::any_io_executor& executor) : socket(executor), timer(executor) {}

  // The error of an operation that the deadline ended is the deadline's.
  [[nodiscard]] Error errorOf(Error error) const {
    return error && late ? make_error_code(boost::beast::error::timeout) : error;
  }

  asio::awaitable<Error> connect(Protocol::endpoint endpoint) {
    Error error;
    socket.close(error);
    socket.open(endpoint.protocol(), error);
    if (!error) std::tie(error) = co_await socket.async_connect(endpoint, kAwait);
    co_return errorOf(error);
  }

  // Keeps what is wrong with the certificate at `context`, if anything.
  bool verify(bool valid, asio::ssl::verify_context& context, const std::string& host) {
    if (!valid) {
      const int fault = X509_STORE_CTX_get_error(context.native_handle());
      bad_certificate = X509_verify_cert_error_string(fault);
    } else if (!asio::ssl::host_name_verification(host)(true, context)) {
      bad_certificate = "it is not for " + host;
      valid = false;
    }
    return valid;
  }

  Protocol::socket socket;
  std::optional<asio::ssl::stream<Protocol::socket&>> tls;
  asio::steady_timer timer;
  base::Monotonic deadline = base::Monotonic::max();
  bool late = false;
  std::string bad_certificate;
};

namespace {

// A look-up of a name, which cannot be interrupted (getaddrinfo(3)).
struct LookUp {
  explicit LookUp(const asio::any_io_executor& executor) : resolver(executor), ended(executor) {}

  tcp::resolver resolver;
  asio::steady_timer ended;  // is cancelled then
  bool done = false;
  boost::system::error_code error;
  tcp::resolver::results_type found;
};

asio::awaitable<std::shared_ptr<LookUp>> lookUp(asio::any_io_executor executor, std::string host,
                                                std::string port, base::Monotonic deadline) {
  const auto look_up = std::make_shared<LookUp>(executor);
  look_up->resolver.async_resolve(
      host, port, [look_up](boost::system::error_code error, tcp::resolver::results_type found) {
        look_up->done = true;
        look_up->error = error;
        look_up->found = std::move(found);
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
ClientStream::~ClientStream() = default;
ClientStream::ClientStream(ClientStream&&) noexcept = default;
ClientStream& ClientStream::operator=(ClientStream&&) noexcept = default;

void ClientStream::expiresAt(base::Monotonic deadline) {
  state_->deadline = deadline;
  state_->timer.expires_at(deadline);
  state_->timer.async_wait([weak = std::weak_ptr(state_)](Error error) {
    const auto state = weak.lock();
    // A deadline that was moved just as the timer fired has not passed.
    if (error || !state || state->timer.expiry() > base::monotonicNow()) return;
    state->late = true;
    state->socket.close(error);
  });
}

void ClientStream::expiresNever() {
  state_->deadline = base::Monotonic::max();
  state_->timer.expires_at(state_->deadline);
}

asio::awaitable<ClientStream::Error> ClientStream::connect(const std::string& host,
                                                           const std::string& port) {
  const auto state = state_;
  const auto look_up = co_await lookUp(state->socket.get_executor(), host, port, state->deadline);
  Error error = look_up->error;
  if (error) co_return error;
  if (look_up->found.empty()) co_return asio::error::not_found;
  for (const auto& entry : look_up->found) {
    if (state->late) co_return state->errorOf(asio::error::timed_out);
    error = co_await state->connect(entry.endpoint());
    if (error) continue;
    state->socket.set_option(tcp::no_delay(true), error);
    break;
  }
  co_return error;
}

asio::awaitable<ClientStream::Error> ClientStream::connect(const std::string& path) {
  co_return co_await state_->connect(asio::local::stream_protocol::endpoint(path));
}

asio::awaitable<ClientStream::Error> ClientStream::secure(asio::ssl::context& tls,
                                                          const std::string& host) {
  const auto state = state_;
  auto& stream = state->tls.emplace(state->socket, tls);
  stream.set_verify_mode(asio::ssl::verify_peer);
  state->bad_certificate.clear();
  stream.set_verify_callback([of = state.get(), host](bool valid, asio::ssl::verify_context& at) {
    return of->verify(valid, at, host);
  });
  if (SSL_set_tlsext_host_name(stream.native_handle(), host.c_str()) != 1) {
    co_return asio::error::invalid_argument;  // no name that TLS can send
  }
  const auto [error] = co_await stream.async_handshake(asio::ssl::stream_base::client, kAwait);
  co_return state->errorOf(error);
}

std::string ClientStream::tlsFault(const Error& error) const {
  const std::string& certificate = state_->bad_certificate;
  return "TLS: " + error.message() + (certificate.empty() ? "" : ": " + certificate);
}

asio::awaitable<std::pair<ClientStream::Error, size_t>> ClientStream::read(
    asio::mutable_buffer into) {
  const auto state = state_;
  const auto [error, n] = state->tls ? co_await state->tls->async_read_some(into, kAwait)
                                     : co_await state->socket.async_read_some(into, kAwait);
  co_return std::pair(state->errorOf(error), n);
}

asio::awaitable<ClientStream::Error> ClientStream::write(asio::const_buffer from) {
  const auto state = state_;
  while (from.size() > 0) {
    const auto [error, n] = state->tls ? co_await state->tls->async_write_some(from, kAwait)
                                       : co_await state->socket.async_write_some(from, kAwait);
    if (error) co_return state->errorOf(error);
    from += n;
  }
  co_return Error();
}

}  // namespace cloister::net

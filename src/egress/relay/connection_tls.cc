// SPDX-License-Identifier: Apache-2.0
// The TLS of a connection that is inspected.
#include <memory>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "egress/relay/connection.h"
#include "net/client_stream.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr uint32_t kAtOnce = 16;  // operations, before other connections have a turn

std::unexpected<Error> notAccepted(std::string message) {
  return fail(Code::kDenied, std::move(message));
}

}  // namespace

net::TlsSession* Connection::tlsOf(const Socket& side) const {
  return (&side == &outside_ ? outside_tls_ : inside_tls_).get();
}

Task<Connection::Error> Connection::ready(Socket& side, Tls::Wait what) {
  const auto [error] = co_await side.async_wait(
      what == Tls::Wait::kRead ? Socket::wait_read : Socket::wait_write, kAwait);
  if (over_ && !error) co_return asio::error::operation_aborted;
  co_return error;
}

// Repeats a step of the side's TLS until it is done.
template <class Step>
Task<net::TlsSession::Step> Connection::overTls(Socket& side, Step step) {
  for (;;) {
    if (over_) co_return Tls::Step{.error = asio::error::operation_aborted};
    Tls::Step done = step(*tlsOf(side));
    if (done.wait == Tls::Wait::kNone) co_return done;
    done.error = co_await ready(side, done.wait);
    if (done.error) co_return done;
  }
}

// The handshake, for at most the time of a greeting: slow bytes do not postpone the end.
Task<Connection::Error> Connection::shakeHands(Socket& side) {
  expireIn(limits_.idle);
  const auto ended = std::make_shared<bool>(false);
  asio::steady_timer timer(side.get_executor(), limits_.greeting);
  timer.async_wait([self = shared_from_this(), &side, ended](Error error) {
    if (error || *ended) return;
    *ended = true;
    side.cancel(error);
  });
  const auto step = co_await overTls(side, [](Tls& tls) { return tls.handshake(); });
  if (std::exchange(*ended, true) && !over_) co_return asio::error::timed_out;
  co_return step.error;
}

Task<Result<std::string>> Connection::secureOutside(std::vector<std::string> protocols) {
  asio::ssl::context* const trust = dialler_.origins();
  if (trust == nullptr) co_return fail(Code::kUnsupported, "TLS cannot be inspected here.");
  outside_tls_ = Tls::make(trust->native_handle(), name(), outside_.native_handle(), protocols);
  if (!outside_tls_) co_return fail(Code::kUnavailable, "TLS cannot name " + name() + ".");
  bool asked = false;
  ::SSL_set_cert_cb(
      outside_tls_->native(),
      [](SSL*, void* flag) {
        *static_cast<bool*>(flag) = true;
        return 1;
      },
      &asked);
  const Error error = co_await shakeHands(outside_);
  ::SSL_set_cert_cb(outside_tls_->native(), nullptr, nullptr);
  if (const std::string fault = outside_tls_->certificateFault(); error && !fault.empty()) {
    co_return notAccepted("The certificate of " + name() + " is not accepted: " + fault + ".");
  }
  if (asked) {
    co_return notAccepted("The server " + name() +
                          " asks for a certificate of the client, which an inspected connection "
                          "cannot show.");
  }
  if (error) {
    co_return fail(Code::kUnavailable,
                   "TLS with " + name() + " failed: " + net::causeOf(error) + ".");
  }
  co_return outside_tls_->protocol();
}

Task<Result<>> Connection::secureInside(std::string arrived, std::string protocol) {
  const auto issuer = guard_->authority();
  if (!issuer) co_return fail(Code::kUnsupported, "The sandbox has no authority.");
  protocol_ = std::move(protocol);
  inside_tls_ = Tls::accept(issuer->context(), inside_.socket.native_handle(), std::move(arrived));
  if (!inside_tls_) co_return fail(Code::kInternal, "TLS cannot be started.");
  CO_TRY(issuer->present(inside_tls_->native(), name(), protocol_));
  const Error error = co_await shakeHands(inside_.socket);
  if (error) {
    co_return notAccepted(
        "The TLS client does not accept the certificate of the sandbox's "
        "authority (" +
        net::causeOf(error) + ").");
  }
  co_return Result<>{};
}

Task<bool> Connection::awaitRequest() {
  if (!outside_.is_open() || (inside_tls_ && inside_tls_->pending())) co_return true;
  for (;;) {
    const auto [order, request, answer] =
        co_await asio::experimental::make_parallel_group(
            inside_.socket.async_wait(Socket::wait_read, asio::deferred),
            outside_.async_wait(Socket::wait_read, asio::deferred))
            .async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    if (order[0] == 0) co_return !request && !over_;
    if (answer || over_ || !outside_tls_) co_return false;
    // Messages of TLS itself, such as tickets, are no answer.
    const auto step = outside_tls_->peek();
    if (step.error || step.bytes > 0) co_return false;
  }
}

Task<Connection::Error> Connection::sayEnd(Socket& to) {
  if (tlsOf(to) != nullptr) {
    const auto step = co_await overTls(to, [](Tls& tls) { return tls.sayEnd(); });
    if (step.error) co_return step.error;
  }
  Error error;
  to.shutdown(Socket::shutdown_send, error);
  co_return error;
}

// Waits without a buffer, as read() does.
Task<std::pair<Connection::Error, size_t>> Connection::readTls(Socket& from, Tls& tls,
                                                               std::string& into, size_t most) {
  const size_t have = into.size();
  for (auto wait = Tls::Wait::kRead;;) {
    if (!tls.pending()) {
      if (over_) co_return std::pair(Error(asio::error::operation_aborted), size_t{0});
      const Error error = co_await ready(from, wait);
      if (error) co_return std::pair(error, size_t{0});
    }
    into.resize(have + most);
    const Tls::Step step = tls.read(into.data() + have, most);
    into.resize(have + step.bytes);
    wait = step.wait;
    if (wait != Tls::Wait::kNone) continue;
    if (step.error != asio::error::eof) co_return std::pair(step.error, step.bytes);
    co_return std::pair(brokeOff(from) ? Error(asio::error::connection_reset) : Error(), size_t{0});
  }
}

Task<Connection::Error> Connection::writeTls(Socket& to, Tls& tls, std::string_view bytes) {
  while (!bytes.empty()) {
    if (over_) co_return asio::error::operation_aborted;
    const Tls::Step step = tls.write(bytes.data(), bytes.size());
    if (step.wait != Tls::Wait::kNone) {
      if (const Error error = co_await ready(to, step.wait)) co_return error;
      continue;
    }
    if (step.error) co_return step.error;
    bytes.remove_prefix(step.bytes);
    if (++at_once_ % kAtOnce == 0) {
      co_await asio::post(to.get_executor(), asio::use_awaitable);
    }
  }
  co_return Error();
}

}  // namespace cloister::egress

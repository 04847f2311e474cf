// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/tls_bridge.h"

#include <sys/socket.h>

#include <cerrno>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>

#include "async/spawn.h"
#include "base/fd.h"
#include "egress/dial/upstream.h"
#include "net/client_stream.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Monotonic;
using Local = asio::local::stream_protocol;
using Error = boost::system::error_code;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kBuffer = size_t{16} << 10;  // a record of TLS
constexpr int kQueued = 32 << 10;  // in the pair, each way; the kernel doubles it, socket(7)
constexpr auto kDrain = std::chrono::seconds(10);

// One thread. Three coroutines own a bridge, and all of them end by end().
class Bridge : public std::enable_shared_from_this<Bridge> {
 public:
  Bridge(Local::socket relay, net::ClientStream proxy)
      : relay_(std::move(relay)), proxy_(std::move(proxy)), drain_(relay_.get_executor()) {}

  void start() {
    const auto executor = relay_.get_executor();
    async::spawn(executor, carryOut(shared_from_this()));
    async::spawn(executor, carryIn(shared_from_this()));
    async::spawn(executor, awaitClosing(shared_from_this()));
  }
  [[nodiscard]] std::shared_ptr<const bool> broken() const { return broken_; }

 private:
  using Self = std::shared_ptr<Bridge>;

  static asio::awaitable<void> carryOut(Self self) {
    for (bool more = true; more;) {
      const auto [error] = co_await self->relay_.async_wait(Local::socket::wait_read, kAwait);
      if (error) co_return self->end();
      Error failed;
      std::tie(failed, more) = co_await self->sendArrived();
      if (failed) co_return self->end();
    }
    if (co_await self->proxy_.sayEnd()) co_return self->end();
    self->out_done_ = true;
    if (self->closing_) self->end();
  }

  // Sends a buffer of what the relay wrote. False: the relay has ended its direction.
  asio::awaitable<std::pair<Error, bool>> sendArrived() {
    const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
    Error error;
    const size_t count = relay_.read_some(asio::buffer(buffer.get(), kBuffer), error);
    if (error == asio::error::would_block || error == asio::error::interrupted) error.clear();
    if (error == asio::error::eof) co_return std::pair(Error(), false);
    if (!error && count > 0) error = co_await proxy_.write(asio::buffer(buffer.get(), count));
    co_return std::pair(error, true);
  }

  static asio::awaitable<void> carryIn(Self self) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
    for (;;) {
      const auto [error, count] = co_await self->proxy_.read(asio::buffer(buffer.get(), kBuffer));
      if (error == asio::error::eof) break;
      if (error) {
        *self->broken_ = true;
        co_return self->end();
      }
      const auto [failed, written] =
          co_await asio::async_write(self->relay_, asio::buffer(buffer.get(), count), kAwait);
      if (failed) co_return self->end();
    }
    Error ignored;
    self->relay_.shutdown(Local::socket::shutdown_send, ignored);
  }

  // The pair hangs up when the relay has closed its end, or when both directions have ended.
  static asio::awaitable<void> awaitClosing(Self self) {
    const auto [error] = co_await self->relay_.async_wait(Local::socket::wait_error, kAwait);
    if (error || self->out_done_) co_return self->end();
    self->closing_ = true;
    self->drain_.expires_after(kDrain);
    co_await self->drain_.async_wait(kAwait);
    self->end();
  }

  void end() {
    Error ignored;
    out_done_ = true;
    drain_.cancel();
    proxy_.close();
    relay_.close(ignored);
  }

  Local::socket relay_;
  net::ClientStream proxy_;
  asio::steady_timer drain_;
  std::shared_ptr<bool> broken_ = std::make_shared<bool>(false);
  bool out_done_ = false;
  bool closing_ = false;  // the relay's end is closed
};

template <class Protocol>
Error adopt(asio::basic_stream_socket<Protocol>& socket, const Protocol& protocol, Fd made) {
  Error error;
  socket.assign(protocol, made.get(), error);
  if (error) return error;
  std::ignore = made.release();
  socket.set_option(asio::socket_base::send_buffer_size(kQueued), error);
  if (!error) socket.non_blocking(true, error);
  return error;
}

// Two connected sockets. The relay's one has the type of all its sockets; it moves bytes, shuts
// down and closes, for which every stream of the kernel is good.
Error makePair(tcp::socket& relays, Local::socket& bridges) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return {errno, boost::system::system_category()};
  }
  Fd first(fds[0]);
  Fd second(fds[1]);
  const Error error = adopt(relays, tcp::v4(), std::move(first));
  return error ? error : adopt(bridges, Local(), std::move(second));
}

}  // namespace

asio::awaitable<Result<Bridged>> bridgeTls(tcp::socket proxy, const Upstream& upstream,
                                           std::string place, Monotonic deadline) {
  const asio::any_io_executor executor = proxy.get_executor();
  Error error;
  const auto local = proxy.local_endpoint(error);
  if (error) co_return refusedByUpstream(place, error.message());
  net::ClientStream stream(executor, local.protocol(), Fd(proxy.release(error)));
  stream.expiresAt(deadline);
  error = co_await stream.secure(*upstream.tls, upstream.host);
  if (error == make_error_code(boost::beast::error::timeout)) {
    co_return refusedByUpstream(place, "TLS: no answer in time");
  }
  if (error) co_return refusedByUpstream(place, stream.tlsFault(error));
  stream.expiresNever();
  Bridged bridged{.socket = tcp::socket(executor), .broken = {}};
  Local::socket end(executor);
  error = makePair(bridged.socket, end);
  if (error) co_return refusedByUpstream(place, error.message());
  const auto bridge = std::make_shared<Bridge>(std::move(end), std::move(stream));
  bridged.broken = bridge->broken();
  bridge->start();
  co_return bridged;
}

}  // namespace cloister::egress

// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/dial.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/fd.h"
#include "egress/dial/tls_bridge.h"
#include "egress/dial/upstream.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::Monotonic;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

std::string placeOf(const Target& target) {
  return target.name + ":" + std::to_string(target.port);
}

std::unexpected<Error> unreached(const Target& target, std::string_view cause) {
  return fail(Code::kUnavailable, "connecting to " + placeOf(target) + ": " + std::string(cause));
}

// Closes the socket at the deadline, which ends its pending operation.
class Alarm {
 public:
  Alarm(tcp::socket& socket, Monotonic deadline) : timer_(socket.get_executor(), deadline) {
    timer_.async_wait([&socket, rang = rang_](boost::system::error_code error) {
      if (error || *rang) return;
      *rang = true;
      boost::system::error_code ignored;
      socket.close(ignored);
    });
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() { *rang_ = true; }  // the handler may be queued already

  [[nodiscard]] bool rang() const { return *rang_; }

 private:
  std::shared_ptr<bool> rang_ = std::make_shared<bool>(false);
  asio::steady_timer timer_;
};

// Asio's own sockets are inherited by started programs.
boost::system::error_code open(tcp::socket& socket, const tcp& protocol) {
  boost::system::error_code error;
  Fd made(::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!made) return {errno, boost::system::system_category()};
  socket.assign(protocol, made.get(), error);
  if (!error) std::ignore = made.release();
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  return error;
}

}  // namespace

Dialler::Dialler(asio::any_io_executor executor, Resolver& resolver, DialOptions options)
    : executor_(std::move(executor)), resolver_(resolver), options_(std::move(options)) {}

Dialler::Task<Result<Dialled>> Dialler::dial(Target target) {
  const Monotonic deadline = base::monotonicNow() + options_.most_time;
  if (const auto own = options_.own.find(target.name); own != options_.own.end()) {
    co_return co_await connect(target, own->second, deadline);
  }
  if (target.name.ends_with(".cloister.internal")) {
    // Such a name must not be asked of a resolver: nobody outside has it.
    co_return fail(Code::kNotFound,
                   target.name + " is not reached through the proxy; add it to no_proxy");
  }
  if (options_.upstream && !target.internal) {
    co_return co_await throughUpstream(target, deadline);
  }
  co_return co_await direct(target, deadline);
}

Dialler::Task<Result<Dialled>> Dialler::dialOwn(std::string host, uint16_t port, bool direct) {
  const Monotonic deadline = base::monotonicNow() + options_.most_time;
  const Target target{.name = std::move(host), .port = port, .internal = true};
  const bool local = target.name == "localhost";
  std::vector<base::Address> addresses;
  if (const auto address = base::Address::parse(local ? "127.0.0.1" : target.name)) {
    addresses = {*address};
  } else if (options_.upstream && !direct) {
    co_return co_await throughUpstream(target, deadline);
  } else {
    addresses = CO_TRY(co_await resolver_.addresses(target.name));
  }
  co_return co_await firstOf(target, addresses, deadline);
}

Dialler::Task<Result<Dialled>> Dialler::direct(const Target& target, Monotonic deadline) {
  const auto addresses = CO_TRY(co_await resolver_.addresses(target.name, target.look_ups));
  const auto networks =
      target.internal ? std::span(target.networks) : std::span<const base::Network>();
  CO_TRY(checkAnswer(target.name, addresses, networks, options_.addresses));
  co_return co_await firstOf(target, addresses, deadline);
}

Dialler::Task<Result<Dialled>> Dialler::firstOf(const Target& target,
                                                const std::vector<base::Address>& addresses,
                                                Monotonic deadline) {
  Result<Dialled> last = unreached(target, "there is no address");
  const size_t count = std::min(addresses.size(), options_.most_addresses);
  for (size_t i = 0; i < count && base::monotonicNow() < deadline; ++i) {
    boost::system::error_code error;
    const auto address = asio::ip::make_address(addresses[i].text(), error);
    if (error) co_return unreached(target, error.message());
    const bool final = i + 1 == count;
    const Monotonic until =
        final ? deadline : std::min(deadline, base::monotonicNow() + options_.try_time);
    last = co_await connect(target, {address, target.port}, until);
    if (last || last.error().code == Code::kConflict) break;
  }
  co_return last;
}

Dialler::Task<Result<Dialled>> Dialler::connect(const Target& target, Endpoint to,
                                                Monotonic deadline) {
  if (target.wanted && !target.wanted()) {
    co_return fail(Code::kConflict, placeOf(target) + ": the rules changed");
  }
  Dialled dialled(executor_);
  boost::system::error_code error = open(dialled.socket, to.protocol());
  if (error) co_return unreached(target, error.message());
  {
    const Alarm alarm(dialled.socket, deadline);
    std::tie(error) = co_await dialled.socket.async_connect(to, kAwait);
    if (alarm.rang()) co_return unreached(target, "no answer in time");
  }
  if (error) co_return unreached(target, error.message());
  const auto peer = base::Address::ofPeer(dialled.socket.native_handle());
  if (!peer || *peer != base::Address::parse(to.address().to_string())) {
    co_return unreached(target, "the peer has another address");
  }
  dialled.address = peer->text();
  co_return dialled;
}

Dialler::Task<Result<Dialled>> Dialler::throughUpstream(const Target& target, Monotonic deadline) {
  const Upstream& upstream = *options_.upstream;
  const Target proxy{.name = upstream.host,
                     .port = upstream.port,
                     .internal = true,
                     .networks = {},
                     .wanted = target.wanted};
  std::vector<base::Address> addresses;
  if (const auto address = base::Address::parse(upstream.host)) {
    addresses = {*address};
  } else {
    addresses = CO_TRY(co_await resolver_.addresses(upstream.host));
  }
  auto dialled = co_await firstOf(proxy, addresses, deadline);
  if (!dialled) co_return dialled;
  if (upstream.tls) {
    auto bridged =
        CO_TRY(co_await bridgeTls(std::move(dialled->socket), upstream, placeOf(target), deadline));
    dialled->socket = std::move(bridged.socket);
    dialled->broken = std::move(bridged.broken);
  }
  Result<std::string> early = std::string();
  {
    const Alarm alarm(dialled->socket, deadline);
    early = co_await connectThrough(dialled->socket, upstream, placeOf(target));
    if (alarm.rang()) co_return unreached(target, "the proxy does not answer in time");
  }
  if (!early) co_return std::unexpected(std::move(early).error());
  dialled->early = *std::move(early);
  dialled->address = placeOf(proxy);
  co_return dialled;
}

}  // namespace cloister::egress

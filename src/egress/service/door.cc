// SPDX-License-Identifier: Apache-2.0
#include "egress/service/door.h"

#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/id.h"
#include "base/log.h"
#include "egress/relay/proxy.h"
#include "egress/relay/relay.h"
#include "egress/service/gateway_relay.h"
#include "linux/nflog.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kHowever = asio::as_tuple(asio::use_awaitable);
constexpr uint16_t kDnsPort = 53;
constexpr Millis kAcceptAgain{100};
// The log of refused packets is read with pauses, so a flood of packets in one sandbox costs the
// others nothing. The kernel counts the packets lost meanwhile.
constexpr int kLogReads = 8;
constexpr Millis kLogPause{50};
constexpr int kLogAll = 512;  // more than the socket's queue holds

Verdict refusal(std::string reason, std::string remedy) {
  Verdict verdict;
  verdict.reason = std::move(reason);
  verdict.remedy = std::move(remedy);
  return verdict;
}

// A program may keep addresses over a restart of this process, so no other name may get them.
uint32_t anyPlace() {
  constexpr int kHex = 16;
  uint32_t place = 0;
  const std::string digits = base::randomHex(sizeof place);
  std::from_chars(digits.data(), digits.data() + digits.size(), place, kHex);
  return place;
}

std::optional<base::Address> addressOf(const tcp::endpoint& endpoint) {
  sockaddr_storage storage{};
  std::memcpy(&storage, endpoint.data(), endpoint.size());
  return base::Address::of(storage);
}

// All addresses of a door are of IPv4.
wire::egress::Who endsOf(const tcp::socket& socket) {
  boost::system::error_code error;
  const tcp::endpoint client = socket.remote_endpoint(error);
  const tcp::endpoint asked = socket.local_endpoint(error);
  if (error || !client.address().is_v4() || !asked.address().is_v4()) return {};
  return {.client = client.address().to_v4().to_uint(),
          .client_port = client.port(),
          .asked = asked.address().to_v4().to_uint(),
          .asked_port = asked.port()};
}

}  // namespace

Result<std::shared_ptr<Door>> Door::open(Hub& hub, std::shared_ptr<PermitState> permit,
                                         DoorSockets sockets, WhoIs who_is) {
  if (hub.doors >= hub.settings.doors) {
    return fail(Code::kQuota, "opening a door: there are too many");
  }
  const auto pool = TRY(base::Network::parse(hub.settings.pool));
  auto names = TRY(Names::make(pool, Names::kMost, anyPlace()));
  auto door = std::make_shared<Door>(hub, std::move(permit), std::move(names), std::move(who_is));
  if (auto started = door->start(door, std::move(sockets)); !started) {
    door->stop();
    return std::unexpected(std::move(started).error().within("opening a door"));
  }
  return door;
}

Door::Door(Hub& hub, std::shared_ptr<PermitState> permit, Names names, WhoIs who_is)
    : hub_(hub),
      permit_(std::move(permit)),
      who_is_(std::move(who_is)),
      life_(std::make_shared<DoorLife>(hub.executor)),
      dns_(std::make_shared<DoorDns>(hub, permit_, life_, std::move(names))),
      log_(hub.executor) {
  ++hub_.doors;
}

Door::~Door() {
  --hub_.doors;
}

Result<> Door::start(const std::shared_ptr<Door>& self, DoorSockets sockets) {
  for (Fd& listener : sockets.listeners) {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) {
      return failErrno("getsockname");
    }
    const auto acceptor = std::make_shared<Acceptor>(hub_.executor);
    boost::system::error_code error;
    acceptor->assign(at.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), listener.get(), error);
    if (error) return fail(Code::kInternal, "taking a listener: " + error.message());
    std::ignore = listener.release();
    acceptors_.push_back(acceptor);
  }
  for (const auto& acceptor : acceptors_)
    async::spawn(hub_.executor, acceptAll(self, acceptor));
  async::spawn(hub_.executor, DoorDns::serveUdp(dns_, std::move(sockets.dns)));
  if (sockets.log) {
    log_.assign(sockets.log.release());
    async::spawn(hub_.executor, readRefused(self));
    permit_->onCatchUp([weak = std::weak_ptr(self)] {
      if (const auto door = weak.lock()) door->readRefusedNow(kLogAll);
    });
  }
  return {};
}

void Door::stop() {
  if (std::exchange(life_->ended, true)) return;
  boost::system::error_code ignored;
  for (const auto& acceptor : acceptors_)
    acceptor->close(ignored);
  dns_->stop();
  log_.close(ignored);
  permit_->changed().notify();
}

Task<void> Door::gone(std::shared_ptr<Door> self, base::Monotonic deadline) {
  while (self->life_->connections != 0 && base::monotonicNow() < deadline)
    co_await self->life_->closed.wait(deadline);
}

Task<void> Door::acceptAll(std::shared_ptr<Door> self, std::shared_ptr<Acceptor> acceptor) {
  while (acceptor->is_open()) {
    auto [error, socket] = co_await acceptor->async_accept(kHowever);
    if (self->life_->ended) co_return;
    if (!error) {
      accepted(self, std::move(socket));
      continue;
    }
    // For example, out of descriptors: wait instead of spinning.
    asio::steady_timer pause(self->hub_.executor, kAcceptAgain);
    co_await pause.async_wait(kHowever);
  }
}

// The local address of the connection is the destination that the program asked for.
void Door::accepted(const std::shared_ptr<Door>& self, Socket socket) {
  boost::system::error_code error;
  const tcp::endpoint endpoint = socket.local_endpoint(error);
  const auto to = error ? std::nullopt : addressOf(endpoint);
  if (!to) return resetConnection(socket);
  if (endpoint.port() == kDnsPort) {
    return async::spawn(self->hub_.executor, DoorDns::serveTcp(self->dns_, std::move(socket)));
  }
  const std::string host = self->hostOf(*to);
  if (!self->dns_->names().nameOf(*to)) {
    self->refused("tcp", *to, endpoint.port());
    return resetConnection(socket);
  }
  if (std::string over = self->overBounds(); !over.empty()) {
    self->hub_.denied(*self->permit_, {host, endpoint.port()},
                      refusal(std::move(over), "Open fewer connections, or try again later."));
    return resetConnection(socket);
  }
  async::spawn(self->hub_.executor, serve(self, std::move(socket), host, endpoint.port()));
}

// The name that was looked up for the address; the address itself if there is none.
std::string Door::hostOf(const base::Address& address) const {
  const auto name = dns_->names().nameOf(address);
  return name ? std::string(*name) : address.text();
}

// The bound that forbids another connection, as a sentence; "" for none.
std::string Door::overBounds() {
  const Settings& settings = hub_.settings;
  if (!permit_->takeConnection()) {
    return "The sandbox opened more than " + std::to_string(settings.connections_per_second) +
           " connections in a second.";
  }
  if (permit_->open() >= settings.open_connections) {
    return "The sandbox has " + std::to_string(settings.open_connections) + " open connections.";
  }
  if (hub_.connections >= settings.connections) {
    return "The service has too many open connections.";
  }
  if (!hub_.record.accepts()) return "The audit log takes no further attempts at the moment.";
  return {};
}

Task<void> Door::serve(std::shared_ptr<Door> self, Socket socket, std::string name, uint16_t port) {
  const wire::egress::Who who = endsOf(socket);
  const auto guard = std::make_shared<ConnectionGuard>(
      self->hub_, self->permit_, self->life_,
      [dns = self->dns_](std::string_view host) { return dns->takesName(host); },
      [self, who]() -> Task<std::string> { return self->who_is_(who); });
  const RelayLimits limits{.idle = self->hub_.settings.idle, .dlp = self->hub_.settings.dlp};
  Inside inside{std::move(socket), std::move(name), port};
  const auto ecosystem = model::ecosystemOfGateway(inside.name);
  if (ecosystem && port == kGatewayPort && self->hub_.gateway != nullptr) {
    co_await packages(std::move(inside), *ecosystem, guard, self->hub_, self->permit_, limits);
  } else if (inside.name == kProxyName && port == kProxyPort) {
    co_await proxy(std::move(inside), guard, self->hub_.dialler, limits);
  } else {
    co_await relay(std::move(inside), guard, self->hub_.dialler, limits);
  }
}

Task<void> Door::readRefused(std::shared_ptr<Door> self) {
  asio::steady_timer pause(self->hub_.executor);
  while (!self->life_->ended) {
    const auto [error] =
        co_await self->log_.async_wait(asio::posix::stream_descriptor::wait_read, kHowever);
    if (error) co_return;
    self->readRefusedNow(kLogReads);
    pause.expires_after(kLogPause);
    co_await pause.async_wait(kHowever);
  }
}

void Door::readRefusedNow(int most) {
  for (int i = 0; i < most && readRefusedOnce(); ++i) {
  }
}

// False: nothing is there.
bool Door::readRefusedOnce() {
  if (!log_.is_open()) return false;
  const auto read = linux::readLog(log_.native_handle());
  if (!read) return false;
  if (read->lost) hub_.record.leaveOut(1);
  for (const linux::LoggedPacket& packet : read->packets) {
    const bool tcp = packet.transport == linux::LoggedPacket::Transport::kTcp;
    if (tcp && !packet.syn) continue;
    refused(std::string(linux::transportName(packet.transport)), packet.destination, packet.port);
  }
  return true;
}

void Door::refused(const std::string& transport, const base::Address& to, uint16_t port) {
  const std::string host = hostOf(to);
  Verdict verdict = permit_->judge({.host = host, .port = port});
  if (transport != "tcp") {
    verdict =
        refusal("The network of a sandbox carries TCP and look-ups; this was " + transport + ".",
                "Use TCP: programs that try QUIC first fall back to it.");
  } else if (verdict.allowed) {
    verdict = refusal("Connections go to names alone, and this address has none.",
                      "Connect to the host by its name.");
  }
  hub_.denied(*permit_, {host, port, transport}, verdict);
}

}  // namespace cloister::egress

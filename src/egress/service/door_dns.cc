// SPDX-License-Identifier: Apache-2.0
#include "egress/service/door_dns.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "async/spawn.h"
#include "base/log.h"
#include "egress/service/door_sockets.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kAnyhow = asio::as_tuple(asio::use_awaitable);
constexpr int kDatagramsAtOnce = 32;   // before other connections have their turn
constexpr Millis kFloodPause{20};      // of a sandbox over its rate: the others have the processor
constexpr Millis kTcpIdle{10'000};     // between two queries of a connection
constexpr size_t kMostQuery = 4096;    // bytes; answer() refuses long queries itself
constexpr size_t kControlBytes = 256;  // of IP_PKTINFO and IPV6_PKTINFO

// Copies the local address of a received datagram into the answer, which then comes from the asked
// server; ip(7), ipv6(7).
size_t replyControl(msghdr& received, char* control) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&received); header != nullptr;
       header = CMSG_NXTHDR(&received, header)) {
    msghdr reply{};
    reply.msg_control = control;
    reply.msg_controllen = kControlBytes;
    cmsghdr* out = CMSG_FIRSTHDR(&reply);
    if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
      in_pktinfo info{};
      std::memcpy(&info, CMSG_DATA(header), sizeof info);
      info.ipi_spec_dst = info.ipi_addr;
      info.ipi_ifindex = 0;
      *out = {.cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO};
      std::memcpy(CMSG_DATA(out), &info, sizeof info);
      return CMSG_SPACE(sizeof info);
    }
    if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info{};
      std::memcpy(&info, CMSG_DATA(header), sizeof info);
      info.ipi6_ifindex = 0;
      *out = {
          .cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO};
      std::memcpy(CMSG_DATA(out), &info, sizeof info);
      return CMSG_SPACE(sizeof info);
    }
  }
  return 0;
}

// A plan that allows nothing.
const model::NetworkPlan& nothing() {
  static const model::NetworkPlan kPlan;
  return kPlan;
}

void askForDestinations(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
}

}  // namespace

// A received query, and the way back to its sender.
struct DoorDns::Datagram {
  std::array<char, kMostQuery> bytes;
  size_t size = 0;
  sockaddr_storage from{};
  socklen_t from_size = 0;
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  size_t control_size = 0;

  // False: nothing is there.
  bool receive(int socket) {
    alignas(cmsghdr) char received[kControlBytes];
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = received;
    message.msg_controllen = sizeof received;
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT);
    if (got < 0) return false;
    size = (message.msg_flags & MSG_TRUNC) != 0 ? 0 : static_cast<size_t>(got);
    from_size = message.msg_namelen;
    control_size = replyControl(message, control.data());
    return true;
  }

  // Without room the reply is dropped, as on any network.
  void reply(int socket, std::string_view text) {
    if (text.empty()) return;
    iovec part{const_cast<char*>(text.data()), text.size()};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = from_size;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (control_size != 0) {
      message.msg_control = control.data();
      message.msg_controllen = control_size;
    }
    std::ignore = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
};

DoorDns::DoorDns(Hub& hub, std::shared_ptr<PermitState> permit, std::shared_ptr<DoorLife> life,
                 Names names)
    : hub_(hub),
      permit_(std::move(permit)),
      life_(std::move(life)),
      names_(std::move(names)),
      udp_(hub.executor) {}

void DoorDns::stop() {
  boost::system::error_code ignored;
  udp_.close(ignored);
}

Task<void> DoorDns::serveUdp(std::shared_ptr<DoorDns> self, Fd socket) {
  if (!socket || self->life_->ended) co_return;
  askForDestinations(socket.get());
  self->udp_.assign(socket.release());
  while (self->udp_.is_open()) {
    const auto [error] =
        co_await self->udp_.async_wait(asio::posix::stream_descriptor::wait_read, kAnyhow);
    if (error) co_return;
    self->flooded_ = false;
    for (int i = 0; i < kDatagramsAtOnce && readOne(self); ++i) {
    }
    if (!self->flooded_) continue;
    asio::steady_timer pause(self->hub_.executor, kFloodPause);
    co_await pause.async_wait(kAnyhow);
  }
}

// False: nothing is there.
bool DoorDns::readOne(const std::shared_ptr<DoorDns>& self) {
  const auto datagram = std::make_shared<Datagram>();
  const int socket = self->udp_.native_handle();
  if (!datagram->receive(socket)) return false;
  self->flooded_ = !self->permit_->takeLookup();
  if (datagram->size == 0 || self->flooded_) return true;
  Asked asked;
  const std::string_view query(datagram->bytes.data(), datagram->size);
  const std::string reply = self->answerNow(query, dns::kUdpBytes, asked);
  if (asked.pass_on) {
    async::spawn(self->hub_.executor, sendPassed(self, datagram, std::move(asked.name)));
  } else {
    datagram->reply(socket, reply);
  }
  return true;
}

Task<void> DoorDns::sendPassed(std::shared_ptr<DoorDns> self, std::shared_ptr<Datagram> datagram,
                               std::string name) {
  std::string query(datagram->bytes.data(), datagram->size);
  const std::string reply =
      co_await passedOn(self, std::move(query), dns::kUdpBytes, std::move(name));
  if (self->udp_.is_open()) datagram->reply(self->udp_.native_handle(), reply);
}

// Refuses a look-up of a name with the placeholder of a secret; "": there is none.
std::string DoorDns::refusePlaceholder(std::string_view query, size_t most_bytes) {
  if (!permit_->broker()) return {};
  const auto read = dns::readQuery(query);
  const auto fault = read ? permit_->broker()->inLookUp(dns::toText(read->name)) : std::nullopt;
  if (!fault) return {};
  Asked asked;
  std::string reply = answer(query, nothing(), names_, most_bytes, asked);
  model::PlanRule rule;
  rule.rule = fault->rule;
  hub_.denied(*permit_, {asked.name, 0, "dns"},
              {.rule = &rule, .reason = fault->reason, .remedy = fault->remedy});
  return reply;
}

// "" with `asked.pass_on`: passedOn() has the answer.
std::string DoorDns::answerNow(std::string_view query, size_t most_bytes, Asked& asked) {
  if (std::string refused = refusePlaceholder(query, most_bytes); !refused.empty()) return refused;
  const auto plan = permit_->plan();
  std::string reply = answer(query, plan ? plan->plan : nothing(), names_, most_bytes, asked);
  if (!asked.allowed && !asked.local && !asked.name.empty() && plan) {
    std::string asking = answerAsking(query, most_bytes, asked);
    if (!asking.empty()) return asking;
  }
  report(asked);
  return reply;
}

// A look-up tells no port. The look-up succeeds if an approver will be asked: the later connection
// names the whole destination. No query leaves.
std::string DoorDns::answerAsking(std::string_view query, size_t most_bytes, const Asked& asked) {
  const Verdict verdict = permit_->judge({.host = asked.name});
  if (verdict.allowed || verdict.on_denied == model::OnDenied::kDeny) return {};
  model::NetworkPlan asking;
  model::PlanRule rule;
  rule.entry.name = asked.name;
  rule.entry.ports = {443};
  asking.rules.push_back(std::move(rule));
  Asked again;
  std::string reply = answer(query, asking, names_, most_bytes, again);
  if (!again.allowed) report(asked);  // no connection follows, so nothing else is recorded
  return reply;
}

Task<std::string> DoorDns::passedOn(std::shared_ptr<DoorDns> self, std::string query,
                                    size_t most_bytes, std::string name) {
  const auto asked = dns::readQuery(query);
  if (!asked || self->passed_ >= kMostPassed || !self->permit_->takeRequest() ||
      !self->hub_.record.accepts()) {
    co_return failed(query, most_bytes);
  }
  ++self->passed_;
  auto reply = co_await self->hub_.resolver.message(
      std::move(name), std::to_underlying(asked->type), self->permit_->lookUps());
  --self->passed_;
  if (!reply) co_return failed(query, most_bytes);
  self->permit_->countBytes(nullptr, reply->size(), query.size());
  co_return passOn(query, *reply, most_bytes);
}

// Only a query that leaves the machine, and a refused one, are attempts.
void DoorDns::report(const Asked& asked) {
  if (asked.local || asked.name.empty()) return;
  const Destination to{asked.name, 0, "dns"};
  if (asked.pass_on) {
    const std::string rule = asked.rule == nullptr ? "" : asked.rule->rule;
    return hub_.allowed(*permit_, to, rule, 1);
  }
  if (asked.allowed) return;
  Verdict verdict = permit_->judge({.host = asked.name, .record_type = asked.type});
  verdict.rule = asked.rule;
  verdict.on_denied = model::OnDenied::kDeny;
  if (!asked.reason.empty()) verdict.reason = asked.reason;
  hub_.denied(*permit_, to, verdict);
}

Task<void> DoorDns::serveTcp(std::shared_ptr<DoorDns> self, tcp::socket socket) {
  if (self->tcp_ >= kMostTcp) {
    resetConnection(socket);
    co_return;
  }
  const Presence presence(self->life_);
  ++self->tcp_;
  co_await converse(self, std::make_shared<tcp::socket>(std::move(socket)));
  --self->tcp_;
}

// Two bytes of length before each message (RFC 1035 §4.2.2).
Task<void> DoorDns::converse(std::shared_ptr<DoorDns> self, std::shared_ptr<tcp::socket> shared) {
  tcp::socket& socket = *shared;
  asio::steady_timer idle(self->hub_.executor);
  std::array<unsigned char, 2> length{};
  std::string query;
  while (!self->life_->ended) {
    idle.expires_after(kTcpIdle);
    idle.async_wait([shared](boost::system::error_code error) {
      boost::system::error_code ignored;
      if (!error) shared->close(ignored);
    });
    const auto [no_length, got] = co_await asio::async_read(socket, asio::buffer(length), kAnyhow);
    if (no_length) break;
    query.resize(size_t{length[0]} << 8U | length[1]);
    if (query.empty() || query.size() > kMostQuery) break;
    const auto [no_query, read] = co_await asio::async_read(socket, asio::buffer(query), kAnyhow);
    if (no_query || !self->permit_->takeLookup()) break;
    Asked asked;
    std::string reply = self->answerNow(query, dns::kTcpBytes, asked);
    if (asked.pass_on) {
      reply = co_await passedOn(self, query, dns::kTcpBytes, std::move(asked.name));
    }
    if (reply.empty() || reply.size() > dns::kTcpBytes) break;
    length = {static_cast<unsigned char>(reply.size() >> 8U),
              static_cast<unsigned char>(reply.size() & 0xffU)};
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(length), asio::buffer(reply)};
    const auto [not_sent, sent] = co_await asio::async_write(socket, parts, kAnyhow);
    if (not_sent) break;
  }
}

}  // namespace cloister::egress

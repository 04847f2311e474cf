// SPDX-License-Identifier: Apache-2.0
#include "linux/netlink.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>

namespace cloister::linux {
namespace {

// Room for an answer. The kernel repeats a failed request in its error, up to this size.
constexpr size_t kMostAnswer = size_t{32} << 10;

size_t aligned(size_t size) {
  return (size + NLMSG_ALIGNTO - 1) & ~size_t{NLMSG_ALIGNTO - 1};
}

}  // namespace

void NetlinkMessages::begin(uint16_t type, uint16_t flags, std::string_view family_header) {
  message_ = bytes_.size();
  nlmsghdr header{};
  header.nlmsg_type = type;
  header.nlmsg_flags = static_cast<uint16_t>(flags | NLM_F_REQUEST);
  header.nlmsg_seq = ++sequence_;
  bytes_.append(bytesOf(header)).append(family_header);
  pad();
  patchLength();
}

void NetlinkMessages::add(uint16_t type, std::string_view value) {
  nlattr header{};
  header.nla_type = type;
  header.nla_len = static_cast<uint16_t>(sizeof header + value.size());
  bytes_.append(bytesOf(header)).append(value);
  pad();
  patchLength();
}

void NetlinkMessages::addText(uint16_t type, std::string_view text) {
  add(type, std::string(text) + '\0');
}

void NetlinkMessages::addBig16(uint16_t type, uint16_t value) {
  const uint16_t big = htons(value);
  add(type, bytesOf(big));
}

void NetlinkMessages::addBig32(uint16_t type, uint32_t value) {
  const uint32_t big = htonl(value);
  add(type, bytesOf(big));
}

void NetlinkMessages::open(uint16_t type, std::string_view header) {
  nests_.push_back(bytes_.size());
  add(static_cast<uint16_t>(type | NLA_F_NESTED), header);
}

void NetlinkMessages::close() {
  const size_t at = nests_.back();
  nests_.pop_back();
  const auto length = static_cast<uint16_t>(bytes_.size() - at);
  std::memcpy(bytes_.data() + at + offsetof(nlattr, nla_len), &length, sizeof length);
}

void NetlinkMessages::acknowledge() {
  uint16_t flags = 0;
  char* const at = bytes_.data() + message_ + offsetof(nlmsghdr, nlmsg_flags);
  std::memcpy(&flags, at, sizeof flags);
  flags |= NLM_F_ACK;
  std::memcpy(at, &flags, sizeof flags);
}

void NetlinkMessages::patchLength() {
  const auto length = static_cast<uint32_t>(bytes_.size() - message_);
  std::memcpy(bytes_.data() + message_ + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
}

void NetlinkMessages::pad() {
  bytes_.resize(aligned(bytes_.size()));
}

bool nextMessage(std::string_view& bytes, NetlinkAnswer& message) {
  nlmsghdr header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.nlmsg_len < sizeof header || header.nlmsg_len > bytes.size()) return false;
  message = {.type = header.nlmsg_type,
             .payload = bytes.substr(sizeof header, header.nlmsg_len - sizeof header)};
  bytes.remove_prefix(std::min(aligned(header.nlmsg_len), bytes.size()));
  return true;
}

bool nextAttribute(std::string_view& bytes, NetlinkAttribute& attribute) {
  nlattr header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.nla_len < sizeof header || header.nla_len > bytes.size()) return false;
  attribute = {.type = static_cast<uint16_t>(header.nla_type & NLA_TYPE_MASK),
               .value = bytes.substr(sizeof header, header.nla_len - sizeof header)};
  bytes.remove_prefix(std::min(aligned(header.nla_len), bytes.size()));
  return true;
}

Result<Fd> netlinkSocket(int protocol) {
  Fd made(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!made) return failErrno("socket AF_NETLINK");
  return made;
}

namespace {

Result<> sendTo(int socket, const std::string& bytes, std::string_view doing) {
  const sockaddr_nl kernel{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};
  const ssize_t sent = ::sendto(socket, bytes.data(), bytes.size(), 0,
                                reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel);
  if (sent != static_cast<ssize_t>(bytes.size())) return failErrno(doing);
  return {};
}

// The answer is there as soon as the request is sent: the kernel works within sendto(2).
Result<std::string_view> readAnswer(int socket, std::string& buffer, std::string_view doing) {
  buffer.resize(kMostAnswer);
  sockaddr_nl from{};
  socklen_t size = sizeof from;
  const ssize_t n = ::recvfrom(socket, buffer.data(), buffer.size(), MSG_TRUNC,
                               reinterpret_cast<sockaddr*>(&from), &size);
  if (n < 0) return failErrno(doing);
  if (from.nl_pid != 0 || static_cast<size_t>(n) > buffer.size()) {
    return fail(Code::kInternal, std::string(doing) + ": the answer is not the kernel's");
  }
  return std::string_view(buffer).substr(0, static_cast<size_t>(n));
}

// The number in an NLMSG_ERROR, which is 0 in an acknowledgement.
int errorOf(std::string_view payload) {
  int error = 0;
  if (payload.size() < sizeof error) return EBADMSG;
  std::memcpy(&error, payload.data(), sizeof error);
  return -error;
}

}  // namespace

Result<> transact(int socket, const NetlinkMessages& messages, std::string_view doing) {
  TRY(sendTo(socket, messages.bytes(), doing));
  std::string buffer;
  std::string_view rest = TRY(readAnswer(socket, buffer, doing));
  NetlinkAnswer answer;
  if (!nextMessage(rest, answer) || answer.type != NLMSG_ERROR) {
    return fail(Code::kInternal, std::string(doing) + ": no answer");
  }
  const int error = errorOf(answer.payload);
  if (error == EEXIST) return fail(Code::kConflict, std::string(doing) + ": it exists");
  if (error != 0) return failErrno(doing, error);
  return {};
}

Result<> addAddress(int socket, uint32_t index, in_addr address) {
  NetlinkMessages messages;
  const ifaddrmsg header{.ifa_family = AF_INET,
                         .ifa_prefixlen = 32,
                         .ifa_flags = 0,
                         .ifa_scope = RT_SCOPE_UNIVERSE,
                         .ifa_index = index};
  messages.begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, bytesOf(header));
  messages.add(IFA_LOCAL, bytesOf(address));
  messages.add(IFA_ADDRESS, bytesOf(address));
  return transact(socket, messages, "adding an address to an interface");
}

Result<> addLoopbackAddress(int socket, in_addr address) {
  return addAddress(socket, kLoopback, address);
}

namespace {

NetlinkMessages routeToLoopback(uint8_t family) {
  NetlinkMessages messages;
  rtmsg header{};
  header.rtm_family = family;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = RT_SCOPE_HOST;
  header.rtm_type = RTN_LOCAL;
  messages.begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, bytesOf(header));
  messages.add(RTA_OIF, bytesOf(kLoopback));
  return messages;
}

}  // namespace

Result<> routeAllToLoopback(int socket, in_addr source) {
  NetlinkMessages messages = routeToLoopback(AF_INET);
  messages.add(RTA_PREFSRC, bytesOf(source));
  return transact(socket, messages, "routing every IPv4 address to lo");
}

Result<> routeAllToLoopback6(int socket) {
  return transact(socket, routeToLoopback(AF_INET6), "routing every IPv6 address to lo");
}

namespace {

NetlinkMessages routeQuery(const base::Address& address) {
  NetlinkMessages messages;
  rtmsg header{};
  header.rtm_family = address.isV4() ? AF_INET : AF_INET6;
  header.rtm_dst_len = address.isV4() ? 32 : 128;
  messages.begin(RTM_GETROUTE, 0, bytesOf(header));
  in6_addr bytes{};
  ::inet_pton(header.rtm_family, address.text().c_str(), &bytes);
  messages.add(RTA_DST, bytesOf(bytes).substr(0, header.rtm_dst_len / 8));
  return messages;
}

// Answers of a host that has no route there, or forbids it.
bool meansNoRoute(int error) {
  return error == ENETUNREACH || error == EHOSTUNREACH || error == EACCES;
}

}  // namespace

Result<bool> isLocalAddress(const base::Address& address) {
  constexpr std::string_view kDoing = "asking for a route";
  const Fd socket = TRY(netlinkSocket(NETLINK_ROUTE));
  TRY(sendTo(socket.get(), routeQuery(address).bytes(), kDoing));
  std::string buffer;
  std::string_view rest = TRY(readAnswer(socket.get(), buffer, kDoing));
  NetlinkAnswer answer;
  if (!nextMessage(rest, answer)) return fail(Code::kInternal, "asking for a route: no answer");
  if (answer.type == NLMSG_ERROR) {
    const int error = errorOf(answer.payload);
    if (meansNoRoute(error)) return false;
    return failErrno(kDoing, error);
  }
  rtmsg route{};
  if (answer.type != RTM_NEWROUTE || answer.payload.size() < sizeof route) {
    return fail(Code::kInternal, "asking for a route: no answer");
  }
  std::memcpy(&route, answer.payload.data(), sizeof route);
  return route.rtm_type != RTN_UNICAST;
}

}  // namespace cloister::linux

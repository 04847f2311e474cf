// SPDX-License-Identifier: Apache-2.0
// Netlink, as far as the door of a sandbox needs it (ADR 0100): messages with their attributes, a
// transaction with the kernel, and the few requests of rtnetlink(7). Any thread. Every function
// acts on the network namespace in which its socket was made.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fd.h"
#include "base/network.h"
#include "base/result.h"

namespace cloister::linux {

// A trivial value as the bytes that the kernel reads.
template <class T>
std::string_view bytesOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Messages under construction, one behind the other; netlink(7). The bytes grow with the messages
// of the caller, who bounds them.
class NetlinkMessages {
 public:
  // Begins the next message; `family_header` follows struct nlmsghdr. Sequence numbers count
  // from 1.
  void begin(uint16_t type, uint16_t flags, std::string_view family_header);
  // Adds an attribute to the present message.
  void add(uint16_t type, std::string_view value);
  void addText(uint16_t type, std::string_view text);  // with a final zero
  void addBig16(uint16_t type, uint16_t value);        // in network byte order
  void addBig32(uint16_t type, uint32_t value);
  // Until the matching close(), attributes are added inside this attribute, behind `header`.
  void open(uint16_t type, std::string_view header = {});
  void close();
  // Demands an acknowledgement of the present message.
  void acknowledge();

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void patchLength();
  void pad();

  std::string bytes_;
  size_t message_ = 0;         // where the present message begins
  std::vector<size_t> nests_;  // where the open attributes begin
  uint32_t sequence_ = 0;
};

// One message of an answer, within the caller's buffer.
struct NetlinkAnswer {
  uint16_t type = 0;
  std::string_view payload;  // behind struct nlmsghdr
};
// Takes the next message from `bytes`; false at the end, and at a message that is malformed.
bool nextMessage(std::string_view& bytes, NetlinkAnswer& message);

struct NetlinkAttribute {
  uint16_t type = 0;  // without flags
  std::string_view value;
};
// Likewise for attributes.
bool nextAttribute(std::string_view& bytes, NetlinkAttribute& attribute);

// A socket of `protocol` (NETLINK_ROUTE, NETLINK_NETFILTER), not blocking.
Result<Fd> netlinkSocket(int protocol);

// Sends the messages and reads the kernel's first answer: an acknowledgement, or the error of the
// first message that failed. The last message must demand an acknowledgement. `doing` begins the
// error's text.
Result<> transact(int socket, const NetlinkMessages& messages, std::string_view doing);

// --- requests of rtnetlink(7); `socket`: of NETLINK_ROUTE. Changes need CAP_NET_ADMIN.

// The number of `lo`, in every network namespace.
inline constexpr uint32_t kLoopback = 1;

// Gives the interface with the number `index` the address, alone. Fails with kConflict if the
// interface has the address.
Result<> addAddress(int socket, uint32_t index, in_addr address);
// The same for `lo`.
Result<> addLoopbackAddress(int socket, in_addr address);
// Delivers packets for every IPv4 address locally; connections without a source address get
// `source`. The route is in table main, so that routes of other devices come first.
Result<> routeAllToLoopback(int socket, in_addr source);
// The same for every IPv6 address.
Result<> routeAllToLoopback6(int socket);

// Whether packets for the address stay on this host: its own addresses, and those of broadcast.
// An address without a route is not the host's. Needs no capability.
Result<bool> isLocalAddress(const base::Address& address);

}  // namespace cloister::linux

// SPDX-License-Identifier: Apache-2.0
// Internet addresses and ranges of addresses (CIDR, RFC 4632 and RFC 4291 §2.3) as values. IPv4 is
// kept as IPv4-mapped IPv6, so that one form of an address is enough.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::base {

class Address {
 public:
  static std::optional<Address> parse(std::string_view text);    // "10.0.0.1", "::1"
  static std::optional<Address> of(const sockaddr_storage& at);  // AF_INET and AF_INET6
  static std::optional<Address> ofPeer(int socket);              // nullopt: of another family
  static Address loopback();
  static Address ofV4(uint32_t number);  // in host byte order

  [[nodiscard]] bool isV4() const;
  [[nodiscard]] uint32_t v4() const;  // of an IPv4 address: the number in host byte order
  [[nodiscard]] std::string text() const;
  // Its first `bits` (of 128), the rest zero.
  [[nodiscard]] Address masked(int bits) const;
  auto operator<=>(const Address&) const = default;

 private:
  friend class Network;
  std::array<uint8_t, 16> bytes_{};
};

class Network {
 public:
  // "10.1.0.0/16", "2001:db8::/32", or a single address. kInvalid for any other text, and for bits
  // beyond the prefix: the author of 10.1.2.3/16 may mean a smaller network.
  static Result<Network> parse(std::string_view text);
  [[nodiscard]] bool contains(const Address& address) const;
  [[nodiscard]] bool contains(const Network& other) const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] const Address& first() const { return address_; }
  [[nodiscard]] int hostBits() const { return 128 - bits_; }  // it has 2^hostBits() addresses
  bool operator==(const Network&) const = default;

 private:
  Address address_;
  int bits_ = 128;  // of the 128
};

}  // namespace cloister::base

// SPDX-License-Identifier: Apache-2.0
#include "base/network.h"

#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>

namespace cloister::base {
namespace {

constexpr int kMappedBits = 96;  // of ::ffff:0:0/96
constexpr int kAllBits = 128;
constexpr size_t kMappedBytes = 12;

}  // namespace

std::optional<Address> Address::parse(std::string_view text) {
  if (text.size() >= INET6_ADDRSTRLEN || text.contains('\0')) return std::nullopt;
  const std::string whole(text);
  Address address;
  if (::inet_pton(AF_INET6, whole.c_str(), address.bytes_.data()) == 1) return address;
  address.bytes_ = {};
  address.bytes_[10] = address.bytes_[11] = 0xff;
  if (::inet_pton(AF_INET, whole.c_str(), address.bytes_.data() + kMappedBytes) == 1) {
    return address;
  }
  return std::nullopt;
}

std::optional<Address> Address::of(const sockaddr_storage& at) {
  Address address;
  if (at.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &at, sizeof v6);
    std::memcpy(address.bytes_.data(), &v6.sin6_addr, address.bytes_.size());
    return address;
  }
  if (at.ss_family != AF_INET) return std::nullopt;
  sockaddr_in v4{};
  std::memcpy(&v4, &at, sizeof v4);
  address.bytes_[10] = address.bytes_[11] = 0xff;
  std::memcpy(address.bytes_.data() + kMappedBytes, &v4.sin_addr, sizeof v4.sin_addr);
  return address;
}

std::optional<Address> Address::ofPeer(int socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0) return std::nullopt;
  return of(at);
}

Address Address::loopback() {
  return *parse("127.0.0.1");
}

Address Address::ofV4(uint32_t number) {
  Address address;
  address.bytes_[10] = address.bytes_[11] = 0xff;
  for (size_t i = 0; i < 4; ++i) {
    address.bytes_[kMappedBytes + i] = static_cast<uint8_t>(number >> (24 - 8 * i));
  }
  return address;
}

uint32_t Address::v4() const {
  uint32_t number = 0;
  for (size_t i = kMappedBytes; i < bytes_.size(); ++i) {
    number = number << 8 | bytes_[i];
  }
  return number;
}

bool Address::isV4() const {
  const auto zeros = std::ranges::count(bytes_.begin(), bytes_.begin() + 10, 0);
  return zeros == 10 && bytes_[10] == 0xff && bytes_[11] == 0xff;
}

std::string Address::text() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (isV4()) {
    ::inet_ntop(AF_INET, bytes_.data() + kMappedBytes, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, bytes_.data(), text, sizeof text);
  }
  return text;
}

Address Address::masked(int bits) const {
  Address out = *this;
  for (int i = 0; i < static_cast<int>(out.bytes_.size()); ++i) {
    const int kept = std::clamp(bits - 8 * i, 0, 8);
    out.bytes_[static_cast<size_t>(i)] &= static_cast<uint8_t>(0xff00 >> kept);
  }
  return out;
}

Result<Network> Network::parse(std::string_view text) {
  const auto wrong = [&] {
    return fail(Code::kInvalid, "must be an address range like 10.0.0.0/8 or 2001:db8::/32");
  };
  const size_t slash = text.find('/');
  const auto address = Address::parse(text.substr(0, slash));
  if (!address) return wrong();
  Network network;
  network.address_ = *address;
  if (slash == std::string_view::npos) return network;
  const std::string_view digits = text.substr(slash + 1);
  int bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  const int most = address->isV4() ? kAllBits - kMappedBits : kAllBits;
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || bits < 0 || bits > most) return wrong();
  network.bits_ = bits + (address->isV4() ? kMappedBits : 0);
  if (address->masked(network.bits_) != *address) {
    return fail(Code::kInvalid, "has bits beyond its prefix; write " +
                                    address->masked(network.bits_).text() + "/" +
                                    std::to_string(bits));
  }
  return network;
}

bool Network::contains(const Address& address) const {
  return address.masked(bits_) == address_;
}

bool Network::contains(const Network& other) const {
  return other.bits_ >= bits_ && contains(other.address_);
}

std::string Network::text() const {
  const int bits = address_.isV4() ? bits_ - kMappedBits : bits_;
  return address_.text() + "/" + std::to_string(bits);
}

}  // namespace cloister::base

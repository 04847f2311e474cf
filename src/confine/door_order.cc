// SPDX-License-Identifier: Apache-2.0
#include "confine/door_order.h"

#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <string>

#include <arpa/inet.h>

#include "base/network.h"

namespace cloister::runtime {
namespace {

constexpr uint32_t kFewestPoolBits = 8;
constexpr uint32_t kMostPoolBits = 24;

Result<DoorOrder> orderOf(std::string_view pool, std::span<const uint16_t> ports, bool only) {
  TRY(base::Network::parse(pool));
  DoorOrder order;
  const size_t slash = pool.find('/');
  in_addr address{};
  if (slash == std::string_view::npos ||
      ::inet_pton(AF_INET, std::string(pool.substr(0, slash)).c_str(), &address) != 1) {
    return fail(Code::kInvalid, "the pool of synthetic addresses: not a network of IPv4");
  }
  order.pool = ntohl(address.s_addr);
  std::from_chars(pool.data() + slash + 1, pool.data() + pool.size(), order.pool_bits);
  std::ranges::copy(ports, order.ports.begin());
  order.port_count = static_cast<uint32_t>(ports.size());
  order.only_ports = only ? 1 : 0;
  if (isSound(order)) return order;
  return fail(Code::kInvalid, "the pool of synthetic addresses: 8 to 24 bits");
}

}  // namespace

Result<DoorOrder> doorOrder(std::string_view pool, std::span<const uint16_t> ports) {
  if (ports.empty() || ports.size() > DoorOrder::kMaxPorts) return orderOf(pool, {}, false);
  return orderOf(pool, ports, true);
}

Result<DoorOrder> doorOrderForAll(std::string_view pool, std::span<const uint16_t> first) {
  return orderOf(pool, first.first(std::min(first.size(), DoorOrder::kMaxPorts)), false);
}

bool isUsualPort(uint16_t port) {
  return std::ranges::find(kUsualPorts, port) != kUsualPorts.end();
}

bool isSound(const DoorOrder& order) {
  if (order.pool_bits < kFewestPoolBits || order.pool_bits > kMostPoolBits) return false;
  if ((order.pool & (UINT32_MAX >> order.pool_bits)) != 0) return false;
  if (order.port_count > DoorOrder::kMaxPorts || order.only_ports > 1) return false;
  if (order.only_ports == 1 && order.port_count == 0) return false;
  return std::ranges::none_of(std::span(order.ports).first(order.port_count),
                              [](uint16_t port) { return port == 0; });
}

}  // namespace cloister::runtime

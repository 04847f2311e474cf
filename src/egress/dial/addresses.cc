// SPDX-License-Identifier: Apache-2.0
#include "egress/dial/addresses.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>

namespace cloister::egress {
namespace {

namespace ip = boost::asio::ip;
using base::Address;
using base::Network;

enum class Unless : uint8_t {
  kNever,     // refused, whatever the operator lists
  kInternal,  // allowed within a network of the operator
};

struct Row {
  std::string_view network;
  Unless unless;
  std::string_view what;
};

// In order; the first row that has the address decides.
constexpr Row kRefused[] = {
    // Metadata services: their answers are credentials of the host.
    {"169.254.0.0/16", Unless::kNever, "a link-local or metadata address (RFC 3927)"},
    {"100.100.100.200", Unless::kNever, "a metadata address (Alibaba Cloud)"},
    {"168.63.129.16", Unless::kNever, "a metadata address (Azure WireServer)"},
    {"192.0.0.192", Unless::kNever, "a metadata address (Oracle Cloud)"},
    {"fd00:ec2::/32", Unless::kNever, "a metadata address (AWS)"},
    {"fd20:ce::254", Unless::kNever, "a metadata address (Google Cloud)"},
    // IANA IPv4 Special-Purpose Address Registry.
    {"0.0.0.0/8", Unless::kNever, "an address of \"this network\" (RFC 791)"},
    {"10.0.0.0/8", Unless::kInternal, "a private address (RFC 1918)"},
    {"100.64.0.0/10", Unless::kInternal, "a shared address (RFC 6598)"},
    {"127.0.0.0/8", Unless::kInternal, "a loopback address (RFC 1122)"},
    {"172.16.0.0/12", Unless::kInternal, "a private address (RFC 1918)"},
    {"192.0.0.0/24", Unless::kNever, "a protocol assignment (RFC 6890)"},
    {"192.88.99.0/24", Unless::kNever, "a 6to4 relay (RFC 7526)"},
    {"192.168.0.0/16", Unless::kInternal, "a private address (RFC 1918)"},
    {"198.18.0.0/15", Unless::kInternal, "a benchmarking address (RFC 2544)"},
    {"224.0.0.0/4", Unless::kNever, "a multicast address (RFC 5771)"},
    {"240.0.0.0/4", Unless::kNever, "a reserved address (RFC 1112)"},
    // IANA IPv6 Special-Purpose Address Registry.
    {"::", Unless::kNever, "the unspecified address (RFC 4291)"},
    {"::1", Unless::kInternal, "a loopback address (RFC 4291)"},
    {"::/96", Unless::kNever, "an IPv4-compatible address (RFC 4291)"},
    {"64:ff9b:1::/48", Unless::kNever, "a local translation address (RFC 8215)"},
    {"100::/64", Unless::kNever, "a discard address (RFC 6666)"},
    {"2001::/32", Unless::kNever, "a Teredo address (RFC 4380)"},
    {"2001::/23", Unless::kNever, "a protocol assignment (RFC 2928)"},
    {"fc00::/7", Unless::kInternal, "a unique local address (RFC 4193)"},
    {"fe80::/10", Unless::kNever, "a link-local address (RFC 4291)"},
    {"fec0::/10", Unless::kInternal, "a site-local address (RFC 3879)"},
    {"ff00::/8", Unless::kNever, "a multicast address (RFC 4291)"},
};

// The IPv6 addresses that are left: global unicast, and NAT64, whose IPv4 address is judged.
constexpr std::string_view kGlobal = "2000::/3";
constexpr std::string_view kNat64 = "64:ff9b::/96";
constexpr std::string_view kSixToFour = "2002::/16";

Network parsed(std::string_view text) {
  return *Network::parse(text);
}

const std::vector<std::pair<Network, const Row*>>& table() {
  static const auto rows = [] {
    std::vector<std::pair<Network, const Row*>> all;
    for (const Row& row : kRefused)
      all.emplace_back(parsed(row.network), &row);
    return all;
  }();
  return rows;
}

// The IPv4 address inside an address that a translator or relay turns into IPv4.
std::optional<Address> embedded(const Address& address) {
  static const Network nat64 = parsed(kNat64);
  static const Network six_to_four = parsed(kSixToFour);
  constexpr size_t kNat64At = 12;     // RFC 6052 §2.2
  constexpr size_t kSixToFourAt = 2;  // RFC 3056 §2
  if (address.isV4()) return std::nullopt;
  size_t at = 0;
  if (nat64.contains(address)) at = kNat64At;
  if (six_to_four.contains(address)) at = kSixToFourAt;
  if (at == 0) return std::nullopt;
  boost::system::error_code error;
  const auto bytes = ip::make_address_v6(address.text(), error).to_bytes();
  ip::address_v4::bytes_type four{};
  std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), four.size(), four.begin());
  return Address::parse(ip::make_address_v4(four).to_string());
}

bool isListed(const Address& address, std::span<const Network> internal) {
  return std::ranges::any_of(internal,
                             [&](const Network& network) { return network.contains(address); });
}

}  // namespace

std::optional<std::string> refusedAddress(const Address& address, std::span<const Network> internal,
                                          const AddressRules& rules) {
  static const Network global = parsed(kGlobal);
  if (rules.pool && rules.pool->contains(address)) return "an address of the synthetic pool";
  const bool listed = isListed(address, internal);
  for (const auto& [range, row] : table()) {
    if (!range.contains(address)) continue;
    if (row->unless == Unless::kInternal && listed) return std::nullopt;
    return std::string(row->what);
  }
  if (const auto inner = embedded(address)) {
    auto why = refusedAddress(*inner, {}, rules);
    if (why) return "a translation of " + inner->text() + ", " + *why;
  } else if (!address.isV4() && !global.contains(address)) {
    return "not a global unicast address (RFC 4291)";
  }
  if (rules.isOurs && !listed && rules.isOurs(address)) return "an address of this host";
  return std::nullopt;
}

Result<> checkAnswer(std::string_view name, const std::vector<Address>& answer,
                     std::span<const Network> internal, const AddressRules& rules) {
  if (answer.empty()) return fail(Code::kNotFound, std::string(name) + " has no address");
  for (const Address& address : answer) {
    const auto why = refusedAddress(address, internal, rules);
    if (!why) continue;
    return fail(Code::kDenied, std::string(name) + " resolves to " + address.text() + ", " + *why);
  }
  return {};
}

}  // namespace cloister::egress

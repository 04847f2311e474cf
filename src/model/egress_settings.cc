// SPDX-License-Identifier: Apache-2.0
#include "model/egress_settings.h"

#include <algorithm>
#include <charconv>

namespace cloister::model {
namespace {

// The pool has the addresses of one door: enough for the names of a program, and no more than the
// range for benchmarks (RFC 2544), which is the default.
constexpr int kLargestPool = 10;
constexpr int kSmallestPool = 24;
constexpr std::string_view kTlsScheme = "https://";

std::unexpected<Error> wrong(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid, key + ": " + why, key);
}

bool isPort(std::string_view text) {
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65'535;
}

// "192.0.2.53:53" or "[2001:db8::53]:53".
bool isAddressWithPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !isPort(text.substr(colon + 1))) return false;
  std::string_view address = text.substr(0, colon);
  const bool brackets = address.starts_with('[') && address.ends_with(']');
  if (brackets) address = address.substr(1, address.size() - 2);
  const auto parsed = base::Address::parse(address);
  return parsed && parsed->isV4() != brackets;
}

Result<> checkPool(const std::string& pool) {
  constexpr const char* kKey = "egress.pool";
  const auto network = base::Network::parse(pool);
  const size_t slash = pool.find('/');
  int bits = 0;
  if (slash != std::string::npos)
    std::from_chars(pool.data() + slash + 1, pool.data() + pool.size(), bits);
  const bool v4 = pool.find(':') == std::string::npos;
  if (network && v4 && bits >= kLargestPool && bits <= kSmallestPool) return {};
  return wrong(kKey,
               "must be a range of IPv4 addresses of 10 to 24 bits that nobody else has, such as "
               "198.18.0.0/15");
}

// An HTTP proxy, for CONNECT: a name or an address, and a port.
Result<> checkUpstream(const std::string& upstream) {
  constexpr const char* kKey = "egress.upstream";
  constexpr std::string_view kScheme = "http://";
  if (upstream.empty()) return {};
  size_t before = upstream.size();
  if (upstream.starts_with(kScheme)) before = kScheme.size();
  if (upstream.starts_with(kTlsScheme)) before = kTlsScheme.size();
  const std::string_view rest = std::string_view(upstream).substr(before);
  const size_t colon = rest.rfind(':');
  const bool named = colon != std::string_view::npos && isPort(rest.substr(colon + 1)) &&
                     hostName(rest.substr(0, colon)).has_value();
  if (named || isAddressWithPort(rest)) return {};
  return wrong(kKey,
               "must be the address of an HTTP proxy, as http://proxy.example.com:3128 or "
               "https://proxy.example.com:3128");
}

}  // namespace

Result<InternalDestinations> readInternal(const std::vector<std::string>& items) {
  InternalDestinations internal;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string key = "egress.internal[" + std::to_string(i) + "]";
    const std::string& item = items[i];
    if (const auto network = base::Network::parse(item)) {
      internal.networks.push_back(network->text());
      continue;
    }
    if (item.find('/') != std::string::npos) {
      return wrong(key, "\"" + item + "\" is no network; write NAME:PORT, or as 10.1.0.0/16");
    }
    internal.names.push_back(TRY(readNetworkEntry(base::json::string(item), key, false)));
  }
  return internal;
}

Result<> checkEgress(const EgressSettings& egress) {
  if (!egress.resolver.empty() && !isAddressWithPort(egress.resolver)) {
    return wrong("egress.resolver", "must be an address and a port, as 192.0.2.53:53");
  }
  TRY(readInternal(egress.internal));
  TRY(checkPool(egress.pool));
  TRY(checkUpstream(egress.upstream));
  if (!egress.upstream_credentials_file.empty() && egress.upstream.empty()) {
    return wrong("egress.upstream_credentials_file", "is for egress.upstream, which is not set");
  }
  return {};
}

}  // namespace cloister::model

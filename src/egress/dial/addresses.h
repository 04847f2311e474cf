// SPDX-License-Identifier: Apache-2.0
// The addresses that cloister-egress may dial for a sandbox. A name is public, but its owner
// chooses the addresses in the answer: a sandbox could otherwise reach the host, its neighbours or
// a cloud's metadata service through a name of its own. Pure; thread-safe.
//
// The table follows the IANA special-purpose address registries for IPv4 and IPv6 (RFC 6890).
// Documentation ranges (RFC 5737, RFC 3849, RFC 9637) are allowed: nothing answers there, and tests
// use them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/result.h"

namespace cloister::egress {

struct AddressRules {
  // The synthetic addresses that look-ups inside are answered with. Empty: none beyond the table.
  std::optional<base::Network> pool = {};
  // Whether an address belongs to this host. Empty: unknown, so only the table decides.
  std::function<bool(const base::Address&)> isOurs = {};
};

// Why the address must not be dialled, as "a private address (RFC 1918)"; nullopt: it may be.
// `internal`: the operator's own networks, whose private, loopback and host addresses are allowed.
// Link-local, metadata, multicast, reserved and synthetic addresses are never allowed.
std::optional<std::string> refusedAddress(const base::Address& address,
                                          std::span<const base::Network> internal,
                                          const AddressRules& rules);

// kDenied for the whole answer if one of its addresses is refused: a mixed answer is an attempt to
// have one address checked and another one dialled. kNotFound: there is no address.
Result<> checkAnswer(std::string_view name, const std::vector<base::Address>& answer,
                     std::span<const base::Network> internal, const AddressRules& rules);

}  // namespace cloister::egress

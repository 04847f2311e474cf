// SPDX-License-Identifier: Apache-2.0
// The configuration of mediated network (`egress`); docs/CONFIGURATION.md explains each setting.
// The control plane reads `internal` and `ask_seconds`, cloister-egress reads all others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/network.h"
#include "base/result.h"
#include "model/network.h"

namespace cloister::model {

struct EgressSettings {
  std::string user = "cloister-egress";   // of cloister-egress when started as root
  std::string resolver;                   // ADDRESS:PORT; "": the host's resolvers
  std::vector<std::string> internal;      // destinations of the tier internal; readInternal()
  std::string pool = "198.18.0.0/15";     // of the synthetic addresses; IPv4
  std::string upstream;                   // http[s]://HOST:PORT of a proxy; "": none
  std::string upstream_credentials_file;  // "USER:PASSWORD" for the proxy; "": none
  std::string ca_file;                    // of an https proxy; "": the system's authorities
  uint32_t ask_seconds = 60;              // a connection waits so long for an approver
  // Of each sandbox.
  uint32_t connections_per_second = 100;
  uint32_t open_connections = 2048;
  uint32_t idle_seconds = 600;  // of a connection without bytes, then it is closed
  // Aggregated attempts of all sandboxes that the ledger has not accepted; beyond, new connections
  // are refused.
  uint32_t attempts_kept = 16'384;
};

// The operator's own destinations: the only ones whose addresses may be private.
struct InternalDestinations {
  std::vector<NetworkEntry> names;
  std::vector<std::string> networks;  // "10.1.0.0/16": the private addresses of the names

  friend bool operator==(const InternalDestinations&, const InternalDestinations&) = default;
};

// Reads `egress.internal`: "NAME:PORT" for a destination, "ADDRESS/BITS" for the addresses to which
// names may lead. kInvalid names the item.
Result<InternalDestinations> readInternal(const std::vector<std::string>& items);

// Checks the form of each setting. Errors name the key, as `egress.pool`.
Result<> checkEgress(const EgressSettings& egress);

}  // namespace cloister::model

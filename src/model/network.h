// SPDX-License-Identifier: Apache-2.0
// Network access: the part of a request that asks for it, the entries of a policy that grant it,
// and the plan that cloister-egress obeys. docs/NETWORK.md explains the rules.
//
// A plan is made by policy alone, for one sandbox, and is immutable. A later plan for the same
// sandbox has a higher generation. The control plane signs the encoding of each plan.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/packages.h"
#include "model/secret.h"

namespace cloister::model {

// Permitted values of a request's `network_policy.tier`.
inline constexpr std::array<std::string_view, 5> kNetworkTiers = {"none", "restricted", "internal",
                                                                  "api", "full"};

// The protocol that a connection has to speak. kTcp: any bytes.
enum class Protocol : uint8_t { kTls, kHttp, kTcp };
std::string_view protocolName(Protocol protocol);
std::optional<Protocol> protocolFromName(std::string_view name);
// The protocol of an entry that names none: 80 is http, 443 is tls, any other port is tcp.
Protocol protocolOfPort(uint16_t port);

// What happens to a connection that no rule allows. kEscalate: it is refused, and an approver is
// asked. kAsk: it waits for the approver, for a bounded time.
enum class OnDenied : uint8_t { kDeny, kEscalate, kAsk };
std::string_view onDeniedName(OnDenied value);
std::optional<OnDenied> onDeniedFromName(std::string_view name);

// One or more destinations, of a request or of a policy rule.
struct NetworkEntry {
  std::string name;  // A-labels in lower case: "api.example.com", "*.example.org"; kAnyName
  std::vector<uint16_t> ports;  // sorted, distinct, never 0; empty only with kAnyName: every port
  Protocol protocol = Protocol::kTcp;
  std::vector<std::string> methods;  // upper case; empty: all. Only of kHttp, or with `inspect`
  std::vector<std::string> paths;    // globs that begin with "/"; empty: all. As methods
  std::vector<std::string> dns;      // record types besides A that are answered: "TXT", "SRV", "MX"
  uint64_t max_bytes = 0;            // in both directions, of one sandbox; 0: no bound
  bool inspect = false;
  std::optional<OnDenied> on_denied;
  std::string why;  // of a policy's entry

  friend bool operator==(const NetworkEntry&, const NetworkEntry&) = default;
};

// A request's `network_policy`.
struct NetworkRequest {
  std::string tier = "none";        // of kNetworkTiers
  std::vector<NetworkEntry> allow;  // empty: everything that policy grants for the tier
  OnDenied on_denied = OnDenied::kDeny;

  friend bool operator==(const NetworkRequest&, const NetworkRequest&) = default;
};

// The name of an entry for every public name. A policy may grant it; a request cannot name it.
inline constexpr std::string_view kAnyName = "*";
inline constexpr size_t kMaxNetworkEntries = 256;
inline constexpr size_t kMaxEntryPorts = 64;
inline constexpr size_t kMaxEntryItems = 64;  // methods, paths

// A host name in its only accepted spelling: A-labels, lower case, no trailing dot, 1 to 253 bytes.
// Letters of other alphabets are accepted in lower case and NFC, and become A-labels (RFC 5891).
// kInvalid for every other spelling: nothing is mended. Names of digits and dots alone, and others
// that inet_aton(3) or inet_pton(3) would read as an address, are refused as well. An underscore
// may only begin a label, as in the names of services (RFC 8552), and not the last.
Result<std::string> hostName(std::string_view text);
// As hostName(), and "*." before a name of at least two labels.
Result<std::string> hostPattern(std::string_view text);
// Whether `pattern` (of hostPattern(), or kAnyName) covers the name. "*.x" does not cover "x".
bool coversName(std::string_view pattern, std::string_view name);
// Whether every name of `inner` is a name of `outer`; both are patterns.
bool coversPattern(std::string_view outer, std::string_view inner);
// Whether every server reads this path of a request, without its query, as the same path: it begins
// with "/", and has no dot segment, no empty segment, no ";" and no escape of a character with a
// meaning in paths. Entries with `paths` cover such paths alone. In their globs "*" stands for any
// characters, "/" too.
bool isPlainPath(std::string_view path);

// Reads an entry: "name:port", or an object. Of a policy's rule (`granting`), `dns`, `max_bytes`,
// `inspect`, `on_denied`, `why` and the name kAnyName are permitted too. Errors name the member
// below `path`.
Result<NetworkEntry> readNetworkEntry(const base::json::value& value, const std::string& path,
                                      bool granting);
// Reads the object `network_policy`. Errors name the member below `path`.
Result<NetworkRequest> readNetworkRequest(const base::json::object& object,
                                          const std::string& path);
// The canonical forms; defaults are left out, but for the tier.
base::json::object toJsonObject(const NetworkEntry& entry);
base::json::object toJsonObject(const NetworkRequest& request);

// A rule of a plan: an entry, and the rule of the policy that grants it.
struct PlanRule {
  NetworkEntry entry;
  std::string rule;       // its name, for records
  bool anyone = false;    // every public name: the entry's is kAnyName, its other members bound it
  bool internal = false;  // the operator's own names and networks, the only ones whose addresses
                          // may be private
  // Not 0: the entry of the policy's rule, from 1. All rules made of one entry share its max_bytes.
  uint32_t budget = 0;

  friend bool operator==(const PlanRule&, const PlanRule&) = default;
};

struct NetworkPlan {
  std::string permit;       // id of the permit of the sandbox
  uint64_t generation = 1;  // rises with each later plan
  std::string tier;
  std::string tenant;
  std::string agent;            // "" for people and services
  std::string policy_id;        // of the deciding policy version
  std::vector<PlanRule> rules;  // the first match decides; none: denied
  OnDenied on_denied = OnDenied::kDeny;
  uint32_t requests_per_minute = 0;  // new connections, and HTTP requests; 0: no bound of the agent
  std::vector<std::string> internal_networks;  // of the tier internal: "10.1.0.0/16"
  std::optional<PlanPackages> packages = {};   // nullopt: the package gateway does not answer
  std::vector<PlanSecret> secrets = {};        // brokered; their destinations are inspected if TLS

  friend bool operator==(const NetworkPlan&, const NetworkPlan&) = default;
};

// The ports that the rules name, distinct, in the order of the rules; at most kMaxNamedPorts.
inline constexpr size_t kMaxNamedPorts = 64;
std::vector<uint16_t> namedPorts(const NetworkPlan& plan);

// The bytes that are signed: canonical JSON. At most kMaxPlanBytes.
inline constexpr size_t kMaxPlanBytes = size_t{256} << 10;
std::string encodePlan(const NetworkPlan& plan);
Result<NetworkPlan> decodePlan(std::string_view bytes);

// A plan in transit: the encoding and a signature over exactly these bytes.
struct SignedPlan {
  std::string encoded;
  std::string signature;  // 64 bytes
};

// A refused destination of a run, for its result. Refusals of the same destination are counted.
struct DeniedDestination {
  std::string host;  // the name; an address where no name was asked for
  uint16_t port = 0;
  std::string transport = "tcp";  // "tcp", "udp", "dns", "icmp", "other"
  std::string rule;               // the deciding rule; "" where none matched
  std::string reason;             // a sentence
  std::string remedy;             // a sentence
  uint64_t count = 0;

  friend bool operator==(const DeniedDestination&, const DeniedDestination&) = default;
};
inline constexpr size_t kMaxDeniedShown = 32;

// What a sandbox did with its network so far.
struct NetworkUse {
  uint64_t connections = 0;
  uint64_t bytes_in = 0;                  // received by the sandbox
  uint64_t bytes_out = 0;                 // sent by the sandbox
  std::vector<DeniedDestination> denied;  // at most kMaxDeniedShown, the first ones
  uint64_t denied_left_out = 0;           // further refused destinations
  std::optional<std::string> hint = {};   // for a run without a network that looked for one

  friend bool operator==(const NetworkUse&, const NetworkUse&) = default;
};
// The `network` member of a result.
base::json::object toJsonObject(const NetworkUse& use);
Result<NetworkUse> readNetworkUse(const base::json::object& object);
// The use since an earlier moment of the same sandbox.
NetworkUse useSince(const NetworkUse& now, const NetworkUse& before);

}  // namespace cloister::model

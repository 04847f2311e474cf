// SPDX-License-Identifier: Apache-2.0
// Messages of cloister-egress: with the control plane over a Unix stream (frames), and with the
// node over a Unix SOCK_SEQPACKET socket, whose messages carry descriptors. All decoders are
// strict.
//
// On the stream `channel` is the number of a call for the calls that have an answer, else 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/network.h"

namespace cloister::wire::egress {

inline constexpr uint32_t kMaxPayload = 1u << 20;

enum class ToEgress : uint16_t {
  kPlan = 1,    // SignedPlan → kPlanned | kFailed. A generation that is not higher is refused
  kForget = 2,  // permit id, raw: its plan ends, and its connections are cut; no answer
  kUse = 3,     // permit id, raw → kUsed | kFailed
  kTaken = 4,   // u64: the batches of attempts up to this number are in the ledger
  kStop = 5,    // u8: 1: the ledger refuses, so new connections are refused; 0: again allowed
};

enum class FromEgress : uint16_t {
  kHello = 64,     // u64: number of the last batch; the first message
  kPlanned = 65,   // none: judged by this plan from now on, and open connections judged again
  kFailed = 66,    // encoded Error (wire/node.h)
  kUsed = 67,      // JSON of NetworkUse
  kAttempts = 68,  // encoded Batch; repeated after a reconnection until kTaken
  kWanted = 69,    // encoded Wanted: an attempt whose verdict asks an approver
};

std::string encodeSignedPlan(const model::SignedPlan& plan);
Result<model::SignedPlan> decodeSignedPlan(std::string_view bytes);

// Attempts with the same destination and rule in the same second are one.
struct Attempts {
  std::string permit;
  std::string plan_sha256;  // of the deciding plan
  std::string host;
  std::string address;  // that was dialled; "" if none was
  uint16_t port = 0;
  std::string transport;  // "tcp", "udp", "dns", "icmp", "other"
  bool allowed = false;
  std::string rule;    // "" where none matched
  std::string reason;  // of a refusal
  int64_t at = 0;      // wall-clock microseconds of the first
  uint64_t count = 0;  // 0: further bytes of connections that an earlier batch counted
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
};
struct Batch {
  uint64_t number = 0;
  std::vector<Attempts> attempts;  // at most kMaxBatch
  uint64_t left_out = 0;           // attempts beyond the bounds, which are only counted
};
inline constexpr size_t kMaxBatch = 256;
std::string encodeBatch(const Batch& batch);
Result<Batch> decodeBatch(std::string_view bytes);

struct Wanted {
  std::string permit;
  std::string host;
  uint16_t port = 0;
  std::string protocol;  // "tls", "http", "tcp"
  std::string rule;      // that denied; "" where none matched
  std::string program;   // the program's name if known
  bool waits = false;    // the connection waits for the answer (OnDenied::kAsk)
};
std::string encodeWanted(const Wanted& wanted);
Result<Wanted> decodeWanted(std::string_view bytes);

// --- with the node: one message each, in order

enum class DoorMessage : uint16_t {
  kAttach = 1,     // Door, with its descriptors → kAttached | kRefused
  kDetach = 2,     // u64 door → kDetached: egress holds no descriptor of the door any more
  kProgram = 3,    // u64 door, u32 number of a kWho, text: the program's name; "" if not known
  kAttached = 65,  // u64 door
  kRefused = 66,   // u64 door, encoded Error
  kDetached = 67,  // u64 door
  kWho = 68,       // u64 door, Who → kProgram
};

// Asks which program has a connection that the door accepted. Addresses are of IPv4, in host order.
struct Who {
  uint32_t number = 0;  // of the question, for its answer
  uint32_t client = 0;  // the program's end
  uint16_t client_port = 0;
  uint32_t asked = 0;  // the end that the program asked for
  uint16_t asked_port = 0;

  friend bool operator==(const Who&, const Who&) = default;
};
inline constexpr size_t kMaxProgram = 64;

// The sockets of a sandbox's network namespace. The descriptors come in the order of their names,
// as far as `has` says so. A connection that a listener accepts for port 53 is DNS over TCP.
struct Door {
  uint64_t id = 0;           // chosen by the node; never used again while the node lives
  std::string permit;        // id of the sandbox's permit
  std::string plan_sha256;   // from the permit: the plan of generation 1
  bool transparent = false;  // tproxy: the listener hears every address, the log tells the rest
  uint32_t listeners = 0;    // TCP listeners: 1 with tproxy, else one per port; never 0
  bool has_dns = false;      // UDP 53
  bool has_log = false;      // NETLINK_NETFILTER
};
inline constexpr size_t kMaxDoorListeners = 16;
std::string encodeDoor(const Door& door);
Result<Door> decodeDoor(std::string_view bytes);

}  // namespace cloister::wire::egress

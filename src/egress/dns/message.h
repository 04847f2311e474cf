// SPDX-License-Identifier: Apache-2.0
// DNS messages (RFC 1035, EDNS0 of RFC 6891, extended errors of RFC 8914): queries of a sandbox in,
// replies out, and the replies of a resolver in. Every byte is hostile. Pure; no I/O; thread-safe.
//
// The reader is strict: one question, no record before the additional section, at most one OPT, no
// bytes after the last record. The question is echoed byte by byte, so programs that check the case
// of letters (draft-vixie-dnsext-dns0x20) accept the reply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::egress::dns {

// Types (IANA, "Domain Name System Parameters") with a meaning here.
enum class Type : uint16_t {
  kA = 1,
  kPtr = 12,
  kMx = 15,
  kTxt = 16,
  kAaaa = 28,
  kSrv = 33,
  kOpt = 41,
  kSvcb = 64,
  kHttps = 65,
};
// "A"; "TYPE1234" (RFC 3597) for a type without a name here.
std::string typeName(Type type);

enum class Rcode : uint16_t {
  kNoError = 0,
  kFormErr = 1,
  kServFail = 2,
  kNxDomain = 3,
  kNotImp = 4,
  kRefused = 5,
  kBadVers = 16,  // of EDNS: half of the code is in the OPT record
};

inline constexpr size_t kMaxQueryBytes = 1024;  // a name of 255 bytes, and options
inline constexpr size_t kUdpBytes = 1232;       // for `most_bytes`: a reply without fragments
inline constexpr size_t kTcpBytes = 65535;      // for `most_bytes`: a reply over TCP
inline constexpr size_t kMaxRecords = 64;       // of a reply
inline constexpr uint16_t kClassIn = 1;
inline constexpr uint16_t kFiltered = 17;  // extended error (RFC 8914 §4.18)

// A name on the wire, without compression: labels with their lengths, and the final zero.
using WireName = std::string;

// "www.Example.com" → wire. nullopt: an empty label, one over 63 bytes, or more than 255 in all.
std::optional<WireName> toWire(std::string_view name);
// The name in lower case without a final dot; the root is ".". Bytes other than letters, digits,
// '-' and '_' are escaped as "\DDD" (RFC 4343), so a dot in a label is no separator.
std::string toText(std::string_view wire);

// A question with its header. `fault` other than kNoError: no reply but this code is possible.
struct Query {
  uint16_t id = 0;
  uint8_t opcode = 0;
  bool recursion_desired = false;
  bool checking_disabled = false;
  WireName name;  // as spelled; empty: the question was not readable, and is not echoed
  Type type{};
  uint16_t klass = 0;
  bool edns = false;
  uint16_t udp_bytes = 512;  // the asker's largest UDP message
  bool dnssec_ok = false;
  Rcode fault = Rcode::kNoError;
};

// nullopt: no reply is allowed (a reply, or no whole header), so the message is dropped.
std::optional<Query> readQuery(std::string_view bytes);
// A query of class IN for tests and for whoever asks a resolver. With EDNS if `edns`.
std::string encodeQuery(const Query& query);

struct Record {
  WireName name;
  Type type{};
  uint32_t ttl = 0;  // seconds
  std::string data;  // names in it are not compressed

  friend bool operator==(const Record&, const Record&) = default;
};

struct Reply {
  Rcode code = Rcode::kNoError;
  std::vector<Record> answers = {};
  std::optional<uint16_t> extended_error = {};  // sent to askers with EDNS alone
  std::string error_text = {};                  // of the extended error; cut at kMaxErrorText
};
inline constexpr size_t kMaxErrorText = 200;

// The reply to `query`. With less than kTcpBytes the reply goes over UDP: it has at most
// `most_bytes` (at least 512) and at most the asker's own bound (512 without EDNS). A longer reply
// leaves out its records and says so (TC), and the asker comes back over TCP.
std::string encodeReply(const Query& query, const Reply& reply, size_t most_bytes);

// The reply of a resolver: its code and the records of class IN in its answer section. Compression
// is undone in the names and in the data of MX, SRV and PTR. kInvalid for bytes that are no reply,
// a pointer that does not point backwards, more than kMaxRecords, or bytes after the last record.
Result<Reply> readReply(std::string_view bytes);

}  // namespace cloister::egress::dns

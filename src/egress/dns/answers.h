// SPDX-License-Identifier: Apache-2.0
// The answer to a look-up inside a sandbox. No query leaves at a look-up: an allowed name gets a
// synthetic address, and cloister-egress resolves the name when it dials. Pure; no I/O.
//
// | question | answer |
// | --- | --- |
// | A of an allowed name, or of kProxyName | a synthetic address |
// | AAAA, HTTPS, SVCB of an allowed name | no data: IPv4 over the door is the only way |
// | TXT, SRV, MX, if the rule's `dns` has the type | `pass_on`: the caller asks a resolver |
// | another type of an allowed name | no data |
// | a name that no rule allows | NXDOMAIN with the extended error 17, "filtered" |
// | PTR of a synthetic address | the name |
// | localhost, and names below (RFC 6761) | 127.0.0.1 and ::1 |
// | transfers, ANY and other types without data, TSIG, classes other than IN | REFUSED |
// | opcodes other than QUERY (updates, notifies) | NOTIMP |
// | malformed | FORMERR |
//
// A program could send data out in the labels of names below an allowed wildcard: the bounds of
// plan/star.h apply there, and the number of names of a door (Names::kMost).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "egress/dns/message.h"
#include "egress/dns/names.h"
#include "egress/plan/judge.h"
#include "egress/plan/own_names.h"  // IWYU pragma: export
#include "model/network.h"

namespace cloister::egress {

// How long a program may keep an answer, in seconds. Addresses are stable and every connection is
// judged, so the bound only lets a changed rule show at the next look-up. Refusals have no record
// of authority, so they are not kept at all (RFC 2308 §5).
inline constexpr uint32_t kTtlSeconds = 10;
inline constexpr uint32_t kMaxPassedTtlSeconds = 300;

// The question, for the record.
struct Asked {
  std::string name;  // in lower case, escaped (dns::toText()); "" if the question was not readable
  std::string type;  // "A"
  bool allowed = false;
  bool local = false;  // localhost, the proxy, or PTR: no rule decides, and nothing is recorded
  const model::PlanRule* rule = nullptr;  // of the plan
  std::string reason;                     // of a refusal: a sentence
  bool pass_on = false;                   // the caller asks a resolver for `name` and `type`
};

// The message to send back; "": none, either because the query is dropped, or because
// `asked.pass_on` says that the caller continues with passOn() or failed(). `most_bytes`:
// kTcpBytes, or the bound of UDP (dns::encodeReply()).
std::string answer(std::string_view query, const model::NetworkPlan& plan, Names& names,
                   size_t most_bytes, Asked& asked);

// The message to send back for a passed-on query: the records of the asked type in `reply`, the
// bytes of a resolver's reply. Records of other names and types are left out. SERVFAIL for a reply
// that is malformed.
std::string passOn(std::string_view query, std::string_view reply, size_t most_bytes);
// The same if no reply came: SERVFAIL.
std::string failed(std::string_view query, size_t most_bytes);

}  // namespace cloister::egress

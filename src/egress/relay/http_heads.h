// SPDX-License-Identifier: Apache-2.0
// The heads that a relay writes: of the request for the origin, of the origin's answer for the
// sandbox, and the relay's own answers. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "egress/http/head.h"
#include "egress/relay/connection.h"
#include "net/answer_parser.h"

namespace cloister::egress {

// The request for the origin, written anew from the read values. Left out: the fields of this hop
// (RFC 9110 §7.6.1), and Host, which is the judged name, and the port unless it is the usual one.
std::string headForOrigin(const RequestHead& request, std::string_view name, uint16_t port,
                          uint16_t usual_port);

enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilClose };

// The answer for the sandbox. `keep`: the connection stays open behind it.
std::string headForSandbox(const net::HttpHead& answer, Framing framing,
                           std::optional<uint64_t> length, bool keep);

// An answer of the relay: a problem document (RFC 9457). `ruling` may be null. `keep` as above;
// `to_head`: the request was a HEAD.
struct OwnAnswer {
  int status = 403;
  std::string detail;
  const Ruling* ruling = nullptr;
  std::string host = {};
  uint16_t port = 0;
};
std::string ownAnswer(const OwnAnswer& answer, bool keep, bool to_head);
// Its parts, for HTTP/2: fields in lower case, without those of the connection.
std::vector<std::pair<std::string, std::string>> ownFields(const OwnAnswer& answer);
std::string ownBody(const OwnAnswer& answer);

// The status for an error of readHead(), or of a dial.
int statusOf(const Error& error);

}  // namespace cloister::egress

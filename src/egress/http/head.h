// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP request (RFC 9110, RFC 9112, RFC 9113), as the judge sees it. Bytes are
// hostile. Pure; no I/O; thread-safe.
//
// This reader stands in place of a library's parser for request heads, not before it: the exchange
// writes a new head from these values to the origin, so the origin sees only judged values. The
// reader accepts what ordinary clients send, and refuses every head that two parties could read
// differently (request smuggling): nothing is mended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::egress {

enum class TargetForm : uint8_t { kOrigin, kAbsolute, kAuthority, kAsterisk };

struct HeadField {
  std::string name;  // in lower case
  std::string value;

  friend bool operator==(const HeadField&, const HeadField&) = default;
};

struct RequestHead {
  std::string method;
  TargetForm form = TargetForm::kOrigin;
  std::string scheme;  // of an absolute target: "http", "https"; else ""
  // Of the target where it has one, else of Host: in lower case, without the brackets of IPv6.
  std::string host;
  std::optional<uint16_t> port = {};  // if it was given
  std::string path;    // without the query, as spelled; "" for kAuthority and kAsterisk
  std::string origin;  // the target for the origin: path and query, or "*"; "" for kAuthority
  bool http11 = true;  // else HTTP/1.0
  std::vector<HeadField> fields;  // all, in order
  std::optional<uint64_t> content_length = {};
  bool chunked = false;
  bool websocket = false;  // asks for an upgrade to a WebSocket, and nothing else
  bool keep_alive = true;
  // Servers take these in place of the method and the path, if a field such as
  // X-HTTP-Method-Override names them.
  std::vector<std::string> field_methods = {};
  std::vector<std::string> field_paths = {};

  // The value of the first field with that name (in lower case); "" if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  // Whether a comma-separated field has the element, whatever its case.
  [[nodiscard]] bool has(std::string_view name, std::string_view element) const;
};

inline constexpr size_t kMaxHeadBytes = size_t{32} << 10;
inline constexpr size_t kMaxHeadFields = 128;
inline constexpr size_t kMaxTargetBytes = size_t{16} << 10;

// How many of the bytes are a head, with its empty line; nullopt: more bytes are needed. kTooLarge:
// no end within kMaxHeadBytes. kInvalid: HTTP/2 by prior knowledge, TLS, or another protocol, known
// by the first bytes, so that a client is not left waiting.
Result<std::optional<size_t>> headEnd(std::string_view bytes);

// Reads a whole head, as headEnd() measured it. Errors are sentences for the client: kInvalid is
// status 400, kTooLarge 431, kUnsupported 505 or 417.
Result<RequestHead> readHead(std::string_view head);

// A request of HTTP/2, as its reader found it (RFC 9113 §8.3.1).
struct RequestParts {
  std::string method;
  std::string scheme;
  std::string authority;  // "": the field Host has it
  std::string path;
  std::vector<HeadField> fields;
};

// The same checks for such a request. Its scheme is part of the head.
Result<RequestHead> readRequest(RequestParts parts);

}  // namespace cloister::egress

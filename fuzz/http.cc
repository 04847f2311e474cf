// SPDX-License-Identifier: Apache-2.0
// HTTP requests: bytes in a single piece or in two give the same request, and no request is larger
// than its limits. The first byte gives the place of the cut.
#include "api/http/request_parser.h"

#include "require.h"

using namespace cloister;
using api::ParseFailure;
using api::Request;
using api::RequestParser;

namespace {

// Like the server: bytes not used by the parser are handed in again with the following bytes.
std::expected<Request, ParseFailure> parseInPieces(std::string_view bytes, size_t first,
                                                   const api::HttpLimits& limits) {
  RequestParser parser(limits);
  std::optional<Request> request;
  size_t used_all = 0;
  for (const size_t end : {std::min(first, bytes.size()), bytes.size()}) {
    while (!parser.done() && used_all < end) {
      const auto used = parser.feed(bytes.substr(used_all, end - used_all));
      if (!used) {
        const auto unknown = parser.withUnknownCredential(bytes.substr(used_all, end - used_all));
        REQUIRE(!unknown || unknown->header("authorization") == "Bearer too-large");
        REQUIRE(!unknown || unknown->count("authorization") == 1);
        return std::unexpected(used.error());
      }
      REQUIRE(*used <= end - used_all);
      used_all += *used;
      const bool head_now = parser.headDone() && !request;
      if (head_now) {
        auto head = parser.head();
        if (!head) return std::unexpected(head.error());
        request = std::move(*head);
        if (auto small = parser.limitBody(limits.body_bytes); !small) {
          return std::unexpected(small.error());
        }
      }
      if (*used == 0 && !head_now) break;
    }
  }
  if (!parser.done()) return std::unexpected(ParseFailure{400, "ends early"});
  request->body = parser.takeBody();
  return std::move(*request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const api::HttpLimits limits = [] {
    api::HttpLimits l;
    l.head_bytes = 4096;
    l.body_bytes = 4096;
    return l;
  }();
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = api::parseRequest(bytes, limits);
  const auto pieces = parseInPieces(bytes, data[0], limits);
  REQUIRE(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  REQUIRE(whole->method == pieces->method && whole->target == pieces->target);
  REQUIRE(whole->path == pieces->path && whole->query == pieces->query);
  REQUIRE(whole->headers.size() == pieces->headers.size());
  REQUIRE(whole->body == pieces->body && whole->body.size() <= limits.body_bytes);
  for (const std::string& segment : whole->path)
    REQUIRE(segment.find('\0') == std::string::npos);
  return 0;
}

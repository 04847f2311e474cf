// SPDX-License-Identifier: Apache-2.0
// Answers of servers in a sandbox: bytes in a single piece or in many give the same answer, and the
// forwarded part has no line breaks of its own. The first byte is the size of the pieces.
#include "api/http/port_headers.h"

#include "require.h"

using namespace cloister;

namespace {

struct Answer {
  api::ResponseHead head;
  std::string body;
};

Result<Answer> read(std::string_view bytes, size_t size, bool to_head) {
  api::ResponseParser parser(to_head);
  Answer answer;
  std::string pending;
  bool head = false;
  while (true) {
    const size_t used = TRY(parser.feed(pending));
    REQUIRE(used <= pending.size());
    pending.erase(0, used);
    if (parser.headDone() && !std::exchange(head, true)) answer.head = TRY(parser.head());
    answer.body += parser.takeBody();
    if (parser.done()) return answer;
    if (used > 0) continue;
    if (bytes.empty()) break;
    pending += bytes.substr(0, size);
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  TRY(parser.end());
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool to_head = (data[0] & 0x80) != 0;
  const size_t piece = (data[0] & 0x7f) + 1U;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read(bytes, bytes.size() + 1, to_head);
  const auto pieces = read(bytes, piece, to_head);
  REQUIRE(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  REQUIRE(whole->head.status == pieces->head.status && whole->body == pieces->body);
  REQUIRE(whole->head.headers.size() == pieces->head.headers.size());
  REQUIRE(whole->head.headers.size() <= api::ResponseParser::kHeaders);
  REQUIRE(!to_head || whole->body.empty());
  api::PortTarget target;
  target.port = 80;
  target.prefix = "/p";
  for (const api::Header& header : api::headersForClient(whole->head, target)) {
    REQUIRE(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    REQUIRE(!header.name.empty() && header.name != "set-cookie");
  }
  return 0;
}

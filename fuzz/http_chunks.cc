// SPDX-License-Identifier: Apache-2.0
// Chunked bodies of requests: the reading is the same however the bytes are divided, and the body
// coded anew is read as the same body. Beast's parser, which origins of this kind resemble, finds
// the same body and the same end. The first byte chooses the size of the pieces.
#include <optional>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "egress/relay/chunks.h"

#include "require.h"

using namespace cloister;
using egress::ChunkReader;

namespace {

struct Reading {
  std::string body;
  size_t used = 0;
  bool done = false;
  bool refused = false;

  friend bool operator==(const Reading&, const Reading&) = default;
};

Reading readInPieces(std::string_view bytes, size_t piece) {
  Reading reading;
  ChunkReader reader;
  while (reading.used < bytes.size() && !reader.done()) {
    const auto used = reader.feed(bytes.substr(reading.used, piece), reading.body);
    if (!used) {
      reading.refused = true;
      break;
    }
    REQUIRE(*used != 0);
    reading.used += *used;
  }
  reading.done = reader.done();
  return reading;
}

// A refusal in the middle of a piece has no count of used bytes, and the rest is not read.
void requireSameInPieces(const Reading& whole, const Reading& pieces) {
  REQUIRE(whole.refused == pieces.refused);
  REQUIRE(whole.body == pieces.body);
  if (!whole.refused) REQUIRE(whole == pieces);
}

// What another parser reads; nothing if it refuses, as with odd trailers, which we drop.
std::optional<Reading> byBeast(std::string_view bytes) {
  namespace http = boost::beast::http;
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string message = head + std::string(bytes);
  http::request_parser<http::string_body> parser;
  parser.header_limit(UINT32_MAX);
  parser.body_limit(boost::none);
  parser.eager(true);
  size_t used = 0;
  while (used < message.size() && !parser.is_done()) {
    boost::system::error_code error;
    const size_t now = parser.put(boost::asio::buffer(message) + used, error);
    used += now;
    if (error == http::error::need_more && now > 0) continue;
    if (error || now == 0) return std::nullopt;
  }
  if (!parser.is_done()) return std::nullopt;
  return Reading{.body = parser.get().body(), .used = used - head.size(), .done = true};
}

void requireSameWhenCodedAnew(const std::string& body) {
  const std::string coded = (body.empty() ? "" : egress::asChunk(body)) + egress::asChunk("");
  const Reading again = readInPieces(coded, coded.size());
  REQUIRE(again.done && again.body == body && again.used == coded.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Reading whole = readInPieces(bytes, bytes.size());
  REQUIRE(whole.body.size() <= bytes.size());
  requireSameInPieces(whole, readInPieces(bytes, size_t{data[0]} + 1));
  if (!whole.done) return 0;
  requireSameWhenCodedAnew(whole.body);
  if (const auto beast = byBeast(bytes)) REQUIRE(*beast == whole);
  return 0;
}

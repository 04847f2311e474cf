// SPDX-License-Identifier: Apache-2.0
#include "api/http/fixed_body.h"

namespace cloister::api {
namespace {

constexpr size_t kPiece = size_t{16} << 10;

Task<void> writePieces(std::string_view bytes, BodyWriter& writer) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    if (!co_await writer.write(piece)) co_return;
    bytes.remove_prefix(piece.size());
  }
}

}  // namespace

void sendFixed(Response& response, std::string_view bytes) {
  if (bytes.size() <= kPiece) {
    response.body = bytes;
    return;
  }
  response.stream = [bytes](BodyWriter& writer) { return writePieces(bytes, writer); };
  response.stream_length = bytes.size();
}

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/chunks.h"

#include <algorithm>
#include <cstdio>

namespace cloister::egress {
namespace {

constexpr int kMostDigits = 10;  // a chunk of a terabyte

std::unexpected<Error> malformed() {
  return fail(Code::kInvalid, "The chunked body is malformed.");
}

int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<> ChunkReader::sizeDigit(char c) {
  constexpr uint64_t kBase = 16;
  if (c == '\r' && digits_ > 0) {
    at_ = At::kSizeEnd;
    return {};
  }
  const int value = hexValue(c);
  if (value < 0 || ++digits_ > kMostDigits) return malformed();
  size_ = size_ * kBase + static_cast<uint64_t>(value);
  return {};
}

Result<> ChunkReader::step(char c) {
  const auto then = [&](char expected, At next) -> Result<> {
    if (c != expected) return malformed();
    at_ = next;
    return {};
  };
  switch (at_) {
    case At::kSize:
      return sizeDigit(c);
    case At::kSizeEnd:
      return then('\n', size_ > 0 ? At::kData : At::kTrailer);
    case At::kDataCr:
      return then('\r', At::kDataLf);
    case At::kDataLf:
      size_ = 0;
      digits_ = 0;
      return then('\n', At::kSize);
    case At::kTrailer:
      if (c == '\r') return then('\r', At::kLastEnd);
      at_ = At::kTrailerText;
      [[fallthrough]];
    case At::kTrailerText:
      if (++trailers_ > kMaxTrailers || c == '\n' || c == '\0') return malformed();
      return c == '\r' ? then('\r', At::kTrailerEnd) : Result<>{};
    case At::kTrailerEnd:
      return then('\n', At::kTrailer);
    case At::kLastEnd:
      return then('\n', At::kDone);
    case At::kData:
    case At::kDone:
      return {};
  }
  return malformed();
}

Result<size_t> ChunkReader::feed(std::string_view bytes, std::string& body) {
  size_t used = 0;
  while (used < bytes.size() && !done()) {
    if (at_ != At::kData) {
      TRY(step(bytes[used]));
      ++used;
      continue;
    }
    const size_t count = std::min<uint64_t>(size_, bytes.size() - used);
    body.append(bytes.substr(used, count));
    used += count;
    size_ -= count;
    if (size_ == 0) at_ = At::kDataCr;
  }
  return used;
}

std::string asChunk(std::string_view piece) {
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
  std::string chunk(size);
  chunk.append(piece).append("\r\n");
  return chunk;
}

}  // namespace cloister::egress

// SPDX-License-Identifier: Apache-2.0
// ChunkReader: the chunked coding of a request's body (RFC 9112 §7.1), strictly: the body is coded
// anew for the origin, so nothing that two readers could understand differently may pass.
// Extensions of chunks are refused, trailers are dropped. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::egress {

class ChunkReader {
 public:
  static constexpr size_t kMaxTrailers = 8192;  // bytes

  // Uses bytes from the front, appends their part of the body to `body`, and returns the number of
  // used bytes: all, or those up to the end of the body. kInvalid: malformed.
  Result<size_t> feed(std::string_view bytes, std::string& body);
  [[nodiscard]] bool done() const { return at_ == At::kDone; }

 private:
  enum class At : uint8_t {
    kSize,     // digits
    kSizeEnd,  // LF behind the CR of the size
    kData,
    kDataCr,  // behind a chunk
    kDataLf,
    kTrailer,      // the first byte of a line
    kTrailerText,  // within a line
    kTrailerEnd,   // LF behind the CR of a line
    kLastEnd,      // LF of the empty line
    kDone,
  };

  Result<> step(char c);
  Result<> sizeDigit(char c);

  At at_ = At::kSize;
  uint64_t size_ = 0;
  int digits_ = 0;
  size_t trailers_ = 0;
};

// A piece of a body as a chunk; the last chunk for an empty piece.
std::string asChunk(std::string_view piece);

}  // namespace cloister::egress

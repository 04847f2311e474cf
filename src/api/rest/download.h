// SPDX-License-Identifier: Apache-2.0
// Files as downloads: in part where asked (RFC 9110 §14), and such that no browser executes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/http/http.h"

namespace cloister::api {

struct ByteRange {
  uint64_t from = 0;
  uint64_t to = 0;  // one past the last
};

enum class RangeKind { kWhole, kPart, kNone };

// One range of bytes; anything else in a Range header is ignored, as the RFC permits. kNone: it is
// outside of `size`.
RangeKind parseRange(std::string_view header, uint64_t size, ByteRange& range);

// 416, and 206's head.
Response outsideOf(uint64_t size);
void setPart(Response& response, const ByteRange& range, uint64_t size);

// Its type, and its name as an attachment's.
void setDownload(Response& response, std::string_view content_type, std::string_view path);

}  // namespace cloister::api

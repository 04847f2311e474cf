// SPDX-License-Identifier: Apache-2.0
// Files as downloads: in ranges if asked (RFC 9110 §14), and safe from execution by a browser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/http/http.h"

namespace cloister::api {

struct ByteRange {
  uint64_t from = 0;
  uint64_t to = 0;  // the byte after the last
};

enum class RangeKind { kWhole, kPart, kNone };

// Parses a single range of bytes; any other Range header is ignored, as the RFC permits. kNone: the
// range is outside of `size`.
RangeKind parseRange(std::string_view header, uint64_t size, ByteRange& range);

// 416, and 206's head.
Response outsideOf(uint64_t size);
void setPart(Response& response, const ByteRange& range, uint64_t size);

// Its type, and its name as an attachment's.
void setDownload(Response& response, std::string_view content_type, std::string_view path);

}  // namespace cloister::api

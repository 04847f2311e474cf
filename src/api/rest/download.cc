// SPDX-License-Identifier: Apache-2.0
#include "api/rest/download.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "api/http/problem.h"

namespace cloister::api {
namespace {

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

RangeKind parseRange(std::string_view header, uint64_t size, ByteRange& range) {
  range = {0, size};
  if (!header.starts_with("bytes=")) return RangeKind::kWhole;
  header.remove_prefix(6);
  const size_t dash = header.find('-');
  if (dash == std::string_view::npos || header.contains(',')) return RangeKind::kWhole;
  const auto first = number(header.substr(0, dash));
  const auto last = number(header.substr(dash + 1));
  if (dash == 0) {
    if (!last) return RangeKind::kWhole;
    if (*last == 0 || size == 0) return RangeKind::kNone;
    range.from = size - std::min(*last, size);
    return RangeKind::kPart;
  }
  if (!first || (dash + 1 < header.size() && (!last || *last < *first))) return RangeKind::kWhole;
  if (*first >= size) return RangeKind::kNone;
  range.from = *first;
  if (last) range.to = std::min(size, *last < UINT64_MAX ? *last + 1 : *last);
  return RangeKind::kPart;
}

Response outsideOf(uint64_t size) {
  return problem(416, "Range: outside the file")
      .with("Content-Range", "bytes */" + std::to_string(size));
}

void setPart(Response& response, const ByteRange& range, uint64_t size) {
  response.status = 206;
  response.with("Content-Range", "bytes " + std::to_string(range.from) + "-" +
                                     std::to_string(range.to - 1) + "/" + std::to_string(size));
}

void setDownload(Response& response, std::string_view content_type, std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  response.with("Content-Type", std::string(content_type))
      .with("Content-Disposition", "attachment; filename*=UTF-8''" + percentEncode(name))
      .with("Content-Security-Policy", "sandbox");
}

}  // namespace cloister::api

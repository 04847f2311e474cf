// SPDX-License-Identifier: Apache-2.0
// /v1/artifacts: what a run left behind, as a download that no browser will execute.
#include <algorithm>
#include <charconv>

#include "api/problem.h"
#include "api/rest/rest.h"

namespace cloister::api {
namespace {

constexpr size_t kPiece = size_t{256} << 10;

struct ByteRange {
  uint64_t from = 0;
  uint64_t to = 0;  // one past the last
};

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

enum class RangeKind { kWhole, kPart, kNone };

// RFC 9110 §14: one range of bytes; anything else in a Range header is ignored, as it permits.
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

std::string disposition(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return "attachment; filename*=UTF-8''" + percentEncode(name);
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const auto found = CO_TRY(parts.service.artifact(request.principal, request.params[0], 0, 0));
  co_return jsonResponse(200, model::toJsonObject(found.first));
}

Task<void> streamArtifact(RestParts& parts, model::Principal principal, std::string id,
                          ByteRange range, BodyWriter& out) {
  while (range.from < range.to) {
    const auto piece = parts.service.artifact(principal, id, range.from,
                                              std::min<uint64_t>(kPiece, range.to - range.from));
    // The head is out: all that is left to say "incomplete" is to break off.
    if (!piece || piece->second.empty() || !co_await out.write(piece->second)) co_return;
    range.from += piece->second.size();
  }
}

Task<Result<Response>> content(RestParts& parts, Request& request) {
  const auto found = CO_TRY(parts.service.artifact(request.principal, request.params[0], 0, 0));
  const model::ArtifactRef& artifact = found.first;
  const std::string etag = "\"" + artifact.sha256 + "\"";
  Response response;
  response.with("ETag", etag).with("Accept-Ranges", "bytes");
  if (request.header("if-none-match") == etag) {
    response.status = 304;
    co_return response;
  }
  ByteRange range{0, artifact.size};
  const std::string_view if_range = request.header("if-range");
  const bool ranged = if_range.empty() || if_range == etag;
  const RangeKind kind =
      ranged ? parseRange(request.header("range"), artifact.size, range) : RangeKind::kWhole;
  const std::string size = std::to_string(artifact.size);
  if (kind == RangeKind::kNone) {
    co_return problem(416, "Range: outside the artifact").with("Content-Range", "bytes */" + size);
  }
  if (kind == RangeKind::kPart) {
    response.status = 206;
    response.with("Content-Range", "bytes " + std::to_string(range.from) + "-" +
                                       std::to_string(range.to - 1) + "/" + size);
  }
  response.with("Content-Type", artifact.content_type)
      .with("Content-Disposition", disposition(artifact.path))
      .with("Content-Security-Policy", "sandbox");
  response.stream_length = range.to - range.from;
  response.stream = [&parts, principal = request.principal, id = request.params[0],
                     range](BodyWriter& out) {
    return streamArtifact(parts, principal, id, range, out);
  };
  co_return response;
}

}  // namespace

std::vector<Route> artifactRoutes(RestParts& parts) {
  return {{.method = "GET",
           .pattern = "/v1/artifacts/{id}",
           .query = {},
           .handle = [&parts](Request& request) { return show(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/artifacts/{id}/content",
           .query = {},
           .handle = [&parts](Request& request) { return content(parts, request); }}};
}

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// …/proxy/44772/files/upload and /files/download: the content of files, piece by piece.
#include <algorithm>
#include <utility>

#include "api/compat/multipart.h"
#include "api/compat/opensandbox/file_calls.h"
#include "api/http/problem.h"
#include "api/rest/download.h"
#include "base/content_type.h"
#include "base/log.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;
constexpr size_t kMostMetadata = size_t{64} << 10;  // of a file of an upload
constexpr std::string_view kPairs =
    "multipart body: must have pairs of a part metadata and a part file";

// `head` has been read already.
Task<void> sendFile(FileCallPtr call, std::string head, uint64_t left, BodyWriter& out) {
  for (std::string piece = std::move(head); left > 0;) {
    piece.resize(std::min<uint64_t>(piece.size(), left));
    if (piece.empty() || !co_await out.write(piece)) co_return;
    left -= piece.size();
    if (left == 0) break;
    auto next = co_await call->read();
    if (!next) {
      base::log(base::Level::kWarn, "file cut short", {{"error", next.error().message}});
      co_return out.cutShort();
    }
    piece = *std::move(next);
  }
}

// Lines of a text, from the first, 1, on.
struct LineRange {
  uint64_t first = 1;
  uint64_t count = UINT64_MAX;
};

// Sends the wanted lines, each with its newline, without holding the file.
Task<void> sendLines(FileCallPtr call, std::string head, LineRange wanted, BodyWriter& out) {
  uint64_t line = 1;
  for (std::string piece = std::move(head); !piece.empty();) {
    size_t from = std::string::npos;
    size_t at = 0;
    const auto inside = [&] { return line >= wanted.first && line - wanted.first < wanted.count; };
    if (inside()) from = 0;
    while ((at = piece.find('\n', at)) != std::string::npos) {
      ++at;
      ++line;
      if (from == std::string::npos && inside()) from = at;
      if (from != std::string::npos && !inside()) break;
    }
    const size_t end = at == std::string::npos ? piece.size() : at;
    if (from < end && !co_await out.write(std::string_view(piece).substr(from, end - from))) {
      co_return;
    }
    if (at != std::string::npos) co_return;  // the last wanted line
    auto next = co_await call->read();
    if (!next) co_return out.cutShort();
    piece = *std::move(next);
  }
}

Task<Result<Response>> download(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const Place place = CO_TRY(placeIn(request));
  const auto offset = CO_TRY(queryInteger(request, "offset", 1, INT64_MAX));
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, INT64_MAX));
  ByteRange range{0, UINT64_MAX};
  RangeKind kind = RangeKind::kWhole;
  if (!offset && !limit && request.count("range") > 0) {
    const FileEntry now = CO_TRY(co_await statOf(desk, request, place));
    kind = parseRange(request.header("range"), now.size, range);
    if (kind == RangeKind::kNone) co_return outsideOf(now.size);
  }
  const auto call = CO_TRY(co_await askFiles(
      desk, request,
      {{"read", place.inside, std::to_string(range.from), std::to_string(range.to - range.from)},
       false,
       ""}));
  const auto entry = co_await call->entry();
  if (!entry) co_return about(entry.error(), "reading", place.shown, place.field);
  if (kind == RangeKind::kPart && range.to > entry->size) co_return outsideOf(entry->size);
  if (kind == RangeKind::kWhole) range = {0, entry->size};
  auto head = co_await call->read();
  if (!head) co_return about(head.error(), "reading", place.shown, place.field);
  Response response;
  if (offset || limit) {
    const LineRange lines{.first = static_cast<uint64_t>(offset.value_or(1)),
                          .count = static_cast<uint64_t>(limit.value_or(INT64_MAX))};
    response.with("Content-Type", "text/plain; charset=utf-8");
    response.stream = [call, head = *std::move(head), lines](BodyWriter& out) {
      return sendLines(call, head, lines, out);
    };
    co_return response;
  }
  response.with("Accept-Ranges", "bytes");
  if (kind == RangeKind::kPart) setPart(response, range, entry->size);
  setDownload(response, base::sniffContentType(place.shown, range.from == 0 ? *head : ""),
              place.shown);
  const uint64_t length = range.to - range.from;
  response.stream_length = length;
  response.stream = [call, head = *std::move(head), length](BodyWriter& out) {
    return sendFile(call, head, length, out);
  };
  co_return response;
}

// The part `metadata` of an upload: the place of the `file` behind it.
struct Target {
  Place place;
  std::optional<uint32_t> mode;
};

Task<Result<Target>> readTarget(MultipartReader& parts) {
  std::string text;
  while (true) {
    const std::string piece = CO_TRY(co_await parts.read());
    if (piece.empty()) break;
    text += piece;
    if (text.size() > kMostMetadata) {
      co_return fail(Code::kTooLarge, "metadata: at most 65536 bytes are allowed", "metadata");
    }
  }
  const auto value = CO_TRY(base::parseJson(text));
  const json::object* object = value.if_object();
  if (object == nullptr) co_return fail(Code::kInvalid, "metadata: must be an object", "metadata");
  base::ObjectReader reader(*object, "metadata");
  const std::string path = CO_TRY(reader.text("path")).value_or("");
  Target target{.place = CO_TRY(placeOf(path, "metadata.path")), .mode = std::nullopt};
  target.mode = CO_TRY(readOwnership(reader, kUser)).mode;
  CO_TRY(reader.finish());
  co_return target;
}

Task<Result<>> writeTo(Desk& desk, Request& request, Target target, MultipartReader& parts) {
  const Place& place = target.place;
  const std::string mode = target.mode ? std::to_string(*target.mode) : "";
  const auto call = CO_TRY(
      co_await askFiles(desk, request, {{"write", place.inside, mode}, true, "file.written"}));
  for (bool more = true; more;) {
    std::string piece = CO_TRY(co_await parts.read());
    more = !piece.empty();
    if (auto sent = co_await call->send(std::move(piece)); !sent) {
      co_return about(std::move(sent).error(), "writing", place.shown, place.field);
    }
  }
  const auto entry = co_await onlyEntry(call);
  if (!entry) co_return about(entry.error(), "writing", place.shown, place.field);
  co_return Result<>{};
}

Task<Result<Response>> upload(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const auto incoming = request.incoming;
  MultipartReader parts = CO_TRY(MultipartReader::make(request.header("content-type"),
                                                       [incoming]() -> Task<Result<std::string>> {
                                                         if (!incoming) co_return std::string();
                                                         co_return co_await incoming->read();
                                                       }));
  uint32_t files = 0;
  std::optional<Target> target;
  while (const auto part = CO_TRY(co_await parts.next())) {
    const bool in_turn = part->name == (target ? "file" : "metadata");
    if (!in_turn) co_return fail(Code::kInvalid, std::string(kPairs));
    if (!target) {
      target = CO_TRY(co_await readTarget(parts));
      continue;
    }
    CO_TRY(co_await writeTo(desk, request, *std::exchange(target, std::nullopt), parts));
    ++files;
  }
  if (files == 0 || target) co_return fail(Code::kInvalid, std::string(kPairs));
  co_return empty(200);
}

}  // namespace

std::vector<Route> transferRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files/download",
       .access = needs(Permission::kFileRead),
       .query = {"path", "offset", "limit"},
       .handle = with(desk, download)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files/upload",
       .access = needs(Permission::kFileWrite),
       .query = {},
       .handle = with(desk, upload),
       .stream_body = UINT64_MAX},
  };
}

}  // namespace cloister::api::compat::opensandbox

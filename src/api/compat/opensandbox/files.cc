// SPDX-License-Identifier: Apache-2.0
// …/proxy/44772/files: what a sandbox's files are, and changes of them, as of OpenSandbox's execd.
#include <algorithm>
#include <utility>

#include "api/compat/opensandbox/file_calls.h"
#include "api/rest/requests.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;
using orchestrator::FileRequest;

Task<Result<Response>> info(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const auto paths = queryTexts(request, "path");
  const auto places = CO_TRY(placesIn(request));
  json::object found;
  for (size_t i = 0; i < places.size(); ++i) {
    const FileEntry entry = CO_TRY(co_await statOf(desk, request, places[i]));
    found[paths[i]] = fileInfo(entry, places[i].shown, kUser);
  }
  co_return jsonResponse(200, found);
}

// A missing file is no error: the wanted state is there.
Task<Result<Response>> remove(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  for (const Place& place : CO_TRY(placesIn(request))) {
    const auto entry = co_await statOf(desk, request, place);
    if (!entry && entry.error().code == Code::kNotFound) continue;
    if (!entry) co_return std::unexpected(entry.error());
    if (entry->kind == wire::files::Kind::kDirectory) {
      co_return fail(Code::kInvalid,
                     "removing " + place.shown + ": it is a directory; DELETE /directories does it",
                     place.field);
    }
    CO_TRY(co_await removeAt(desk, request, place, false));
  }
  co_return empty(200);
}

Task<Result<Response>> move(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  auto items = base::parseJson(request.body, {.max_bytes = desk.parts.bounds.body_bytes});
  if (!items) co_return std::unexpected(std::move(items).error());
  if (!items->is_array() || items->get_array().size() > kMostPaths) {
    co_return fail(Code::kInvalid, "request body: must be a list of objects with src and dest");
  }
  for (const json::value& item : items->get_array()) {
    const json::object* object = item.if_object();
    if (object == nullptr) co_return fail(Code::kInvalid, "request body: a list of objects");
    base::ObjectReader reader(*object, "");
    const std::string source = CO_TRY(reader.text("src")).value_or("");
    const std::string target = CO_TRY(reader.text("dest")).value_or("");
    const Place from = CO_TRY(placeOf(source, "src"));
    const Place to = CO_TRY(placeOf(target, "dest"));
    CO_TRY(reader.finish());
    const auto call = CO_TRY(co_await askFiles(
        desk, request, {{"move", from.inside, to.inside, "1"}, false, "file.moved"}));
    const auto done = co_await call->finish();
    if (!done) co_return about(done.error(), "moving", from.shown, "src");
  }
  co_return empty(200);
}

Task<Result<Response>> permissions(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const json::object body = CO_TRY(bodyObject(desk, request));
  for (const auto& [path, value] : body) {
    const Place place = CO_TRY(placeOf(path, std::string(path)));
    const json::object* object = value.if_object();
    if (object == nullptr) {
      co_return fail(Code::kInvalid, std::string(path) + ": must be an object with a mode",
                     std::string(path));
    }
    base::ObjectReader reader(*object, std::string(path));
    const FileOwnership owned = CO_TRY(readOwnership(reader, kUser));
    CO_TRY(reader.finish());
    if (owned.mode) CO_TRY(co_await changeMode(desk, request, place, *owned.mode));
  }
  co_return empty(200);
}

struct Whole {
  FileEntry entry;
  std::string bytes;
};

Task<Result<Whole>> readWhole(Desk& desk, Request& request, Place place) {
  const size_t most = desk.parts.bounds.body_bytes;
  const auto call = CO_TRY(co_await askFiles(
      desk, request, {{"read", place.inside, "0", std::to_string(most + 1)}, false, ""}));
  auto entry = co_await call->entry();
  if (!entry) co_return about(std::move(entry).error(), "reading", place.shown, place.field);
  Whole whole{.entry = *entry, .bytes = {}};
  while (true) {
    auto piece = co_await call->read();
    if (!piece) co_return about(std::move(piece).error(), "reading", place.shown, place.field);
    if (piece->empty()) co_return whole;
    whole.bytes += *piece;
    if (whole.bytes.size() > most) {
      co_return fail(Code::kTooLarge,
                     "replacing in " + place.shown + ": at most " + std::to_string(most) +
                         " bytes are allowed (limits.body_mb)",
                     place.field);
    }
  }
}

Task<Result<>> writeWhole(Desk& desk, Request& request, Place place, std::string bytes) {
  constexpr size_t kPiece = size_t{64} << 10;
  const auto call =
      CO_TRY(co_await askFiles(desk, request, {{"write", place.inside, ""}, true, "file.written"}));
  for (size_t at = 0; at < bytes.size(); at += kPiece)
    CO_TRY(co_await call->send(bytes.substr(at, kPiece)));
  CO_TRY(co_await call->send(""));
  const auto entry = co_await onlyEntry(call);
  if (!entry) co_return about(entry.error(), "writing", place.shown, place.field);
  co_return Result<>{};
}

Task<Result<Response>> replace(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const bool verbose = CO_TRY(queryFlag(request, "verbose"));
  const json::object body = CO_TRY(bodyObject(desk, request));
  json::object counts;
  for (const auto& [path, value] : body) {
    const std::string field(path);
    const Place place = CO_TRY(placeOf(path, field));
    const json::object* object = value.if_object();
    if (object == nullptr) co_return fail(Code::kInvalid, field + ": must be an object", field);
    base::ObjectReader reader(*object, field);
    const std::string from = CO_TRY(reader.text("old")).value_or("");
    const std::string to = CO_TRY(reader.text("new")).value_or("");
    CO_TRY(reader.finish());
    if (from.empty()) {
      co_return fail(Code::kInvalid, field + ".old: must not be empty", field + ".old");
    }
    Whole whole = CO_TRY(co_await readWhole(desk, request, place));
    auto [text, count] = replacedAll(std::move(whole.bytes), from, to);
    if (count > 0) CO_TRY(co_await writeWhole(desk, request, place, std::move(text)));
    counts[path] = json::object{{"replacedCount", count}};
  }
  co_return verbose ? jsonResponse(200, counts) : empty(200);
}

Task<Result<Response>> search(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const Place place = CO_TRY(placeIn(request));
  const std::string pattern = queryText(request, "pattern").value_or("**");
  const Listed listed = CO_TRY(co_await listBelow(desk, request, place, wire::files::kMaxDepth));
  json::array found;
  for (const FileEntry& entry : listed.entries) {
    const bool directory = entry.kind == wire::files::Kind::kDirectory;
    if (directory || !matchesPattern(pattern, entry.path)) continue;
    found.push_back(fileInfo(entry, below(place.shown, entry.path), kUser));
  }
  co_return jsonResponse(200, found).with("X-Cloister-Left-Out", std::to_string(listed.left_out));
}

}  // namespace

std::vector<Route> fileRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files/info",
       .access = needs(Permission::kFileRead),
       .query = {"path"},
       .handle = with(desk, info)},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files",
       .access = needs(Permission::kFileWrite),
       .query = {"path"},
       .handle = with(desk, remove)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files/mv",
       .access = needs(Permission::kFileWrite),
       .query = {},
       .handle = with(desk, move),
       .json_body = true},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files/permissions",
       .access = needs(Permission::kFileWrite),
       .query = {},
       .handle = with(desk, permissions),
       .json_body = true},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files/replace",
       .access = needs(Permission::kFileWrite),
       .query = {"verbose"},
       .handle = with(desk, replace),
       .json_body = true},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/files/search",
       .access = needs(Permission::kFileRead),
       .query = {"path", "pattern"},
       .handle = with(desk, search)},
  };
}

}  // namespace cloister::api::compat::opensandbox

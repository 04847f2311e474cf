// SPDX-License-Identifier: Apache-2.0
// …/proxy/44772/directories: directories listed, made and removed.
#include <utility>

#include "api/compat/opensandbox/file_calls.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

Task<Result<Response>> listDirectory(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const Place place = CO_TRY(placeIn(request));
  const auto depth = CO_TRY(queryInteger(request, "depth", 0, wire::files::kMaxDepth));
  const FileEntry itself = CO_TRY(co_await statOf(desk, request, place));
  if (itself.kind != wire::files::Kind::kDirectory) {
    co_return fail(Code::kInvalid, "listing " + place.shown + ": it is not a directory",
                   place.field);
  }
  json::array entries;
  if (depth != 0) {
    const Listed listed = CO_TRY(co_await listBelow(desk, request, place, depth.value_or(1)));
    for (const FileEntry& entry : listed.entries)
      entries.push_back(fileInfo(entry, below(place.shown, entry.path), kUser));
  }
  co_return jsonResponse(200, entries);
}

Task<Result<Response>> makeDirectories(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  const json::object body = CO_TRY(bodyObject(desk, request));
  constexpr uint32_t kUsual = 0755;
  for (const auto& [path, value] : body) {
    const std::string field(path);
    const Place place = CO_TRY(placeOf(path, field));
    const json::object* object = value.if_object();
    if (object == nullptr) co_return fail(Code::kInvalid, field + ": must be an object", field);
    base::ObjectReader reader(*object, field);
    const FileOwnership owned = CO_TRY(readOwnership(reader, kUser));
    CO_TRY(reader.finish());
    const auto call = CO_TRY(
        co_await askFiles(desk, request, {{"mkdir", place.inside}, false, "file.directory_made"}));
    const auto entry = co_await onlyEntry(call);
    if (!entry) co_return about(entry.error(), "making", place.shown, field);
    if (owned.mode.value_or(kUsual) != (entry->mode & 0777)) {
      CO_TRY(co_await changeMode(desk, request, place, owned.mode.value_or(kUsual)));
    }
  }
  co_return empty(200);
}

Task<Result<Response>> removeDirectories(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  for (const Place& place : CO_TRY(placesIn(request))) {
    const auto entry = co_await statOf(desk, request, place);
    if (!entry && entry.error().code == Code::kNotFound) continue;
    if (!entry) co_return std::unexpected(entry.error());
    CO_TRY(co_await removeAt(desk, request, place, true));
  }
  co_return empty(200);
}

}  // namespace

std::vector<Route> directoryRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/directories/list",
       .access = needs(Permission::kFileRead),
       .query = {"path", "depth"},
       .handle = with(desk, listDirectory)},
      {.method = "POST",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/directories",
       .access = needs(Permission::kFileWrite),
       .query = {},
       .handle = with(desk, makeDirectories),
       .json_body = true},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/44772/directories",
       .access = needs(Permission::kFileWrite),
       .query = {"path"},
       .handle = with(desk, removeDirectories)},
  };
}

}  // namespace cloister::api::compat::opensandbox

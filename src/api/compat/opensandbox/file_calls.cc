// SPDX-License-Identifier: Apache-2.0
#include "api/compat/opensandbox/file_calls.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;
using orchestrator::FileRequest;

constexpr Millis kPatience{30'000};  // for chmod

}  // namespace

Result<Place> placeOf(std::string_view path, const std::string& field) {
  Place place{.shown = TRY(plainPath(path, field)), .inside = {}, .field = field};
  place.inside = place.shown == "/workspace" ? std::string() : TRY(checkedPath(place.shown, field));
  return place;
}

Result<std::vector<Place>> placesIn(const Request& request) {
  std::vector<Place> places;
  for (const std::string& path : queryTexts(request, "path"))
    places.push_back(TRY(placeOf(path, "query.path")));
  if (!places.empty() && places.size() <= kMostPaths) return places;
  return fail(Code::kInvalid,
              "query parameter path: 1 to " + std::to_string(kMostPaths) + " are allowed",
              "query.path");
}

Result<Place> placeIn(const Request& request) {
  return placeOf(queryText(request, "path").value_or(""), "query.path");
}

Task<Result<FileCallPtr>> askFiles(Desk& desk, Request& request, FileRequest wanted) {
  co_return co_await desk.parts.sessions.files(request.principal, request.params[0],
                                               std::move(wanted));
}

Task<Result<FileEntry>> statOf(Desk& desk, Request& request, Place place) {
  const auto call = CO_TRY(co_await askFiles(desk, request, {{"stat", place.inside}, false, ""}));
  auto entry = co_await onlyEntry(call);
  if (!entry) co_return about(std::move(entry).error(), "looking at", place.shown, place.field);
  co_return entry;
}

Task<Result<Listed>> listBelow(Desk& desk, Request& request, Place place, int64_t depth) {
  const auto call = CO_TRY(co_await askFiles(
      desk, request,
      {{"list", place.inside, std::to_string(depth), std::to_string(kMaxEntries)}, false, ""}));
  auto all = co_await collect(call);
  if (!all) co_return about(std::move(all).error(), "listing", place.shown, place.field);
  co_return all;
}

Task<Result<>> removeAt(Desk& desk, Request& request, Place place, bool recursive) {
  const auto call = CO_TRY(co_await askFiles(
      desk, request, {{"remove", place.inside, recursive ? "1" : "0"}, false, "file.removed"}));
  const auto done = co_await call->finish();
  if (!done) co_return about(done.error(), "removing", place.shown, place.field);
  co_return Result<>{};
}

Task<Result<>> changeMode(Desk& desk, Request& request, Place place, uint32_t mode) {
  CO_TRY(co_await statOf(desk, request, place));
  std::array<char, 8> octal{};
  std::snprintf(octal.data(), octal.size(), "%04o", mode);
  const model::Session sandbox = CO_TRY(liveSandbox(desk, request));
  json::object body{{"command", json::array{"chmod", "--", octal.data(), place.shown}}};
  const model::Execution begun = CO_TRY(co_await start(desk, request, sandbox, std::move(body)));
  const model::Execution ended =
      CO_TRY(co_await desk.parts.service.wait(request.principal, begun.id, kPatience));
  if (ended.status == model::Status::kCompleted) co_return Result<>{};
  const std::string why = ended.error ? ended.error->message : readable(ended.err.bytes);
  co_return fail(ended.status == model::Status::kDenied ? Code::kDenied : Code::kConflict,
                 "changing the mode of " + place.shown + ": " + why, place.field);
}

}  // namespace cloister::api::compat::opensandbox

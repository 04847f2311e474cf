// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/entries.h"

#include "api/compat/e2b/paths.h"
#include "base/clock.h"

namespace cloister::api::compat::e2b {
namespace {

namespace files = wire::files;

// Every program of a sandbox has this user.
constexpr std::string_view kUser = "user";

std::string_view typeName(files::Kind kind) {
  if (kind == files::Kind::kDirectory) return "FILE_TYPE_DIRECTORY";
  if (kind == files::Kind::kLink) return "FILE_TYPE_SYMLINK";
  return kind == files::Kind::kFile ? "FILE_TYPE_FILE" : "FILE_TYPE_UNSPECIFIED";
}

// "-rw-r--r--", with Go's letters for the type.
std::string permissionsOf(const files::Entry& entry) {
  std::string text(1, entry.kind == files::Kind::kDirectory ? 'd'
                      : entry.kind == files::Kind::kLink    ? 'L'
                                                            : '-');
  constexpr std::string_view kLetters = "rwxrwxrwx";
  for (size_t i = 0; i < kLetters.size(); ++i) {
    const bool has = ((entry.mode >> (kLetters.size() - 1 - i)) & 1) != 0;
    text.push_back(has ? kLetters[i] : '-');
  }
  return text;
}

}  // namespace

base::json::object entryInfo(const files::Entry& entry, const std::string& path) {
  return {{"name", baseName(path)},
          {"type", typeName(entry.kind)},
          {"path", path},
          {"size", std::to_string(entry.size)},
          {"mode", entry.mode & 0777},
          {"permissions", permissionsOf(entry)},
          {"owner", kUser},
          {"group", kUser},
          {"modifiedTime", base::formatTime(entry.modified_at)}};
}

Result<Place> placeOf(std::string_view path, const std::string& field) {
  return Place{.shown = resolvedPath(path), .served = TRY(servedPath(path, field))};
}

Task<Result<FileCallPtr>> PlaceCalls::ask(orchestrator::FileRequest request) const {
  co_return co_await parts_.sessions.files(who_, session_, std::move(request));
}

Task<Result<files::Entry>> PlaceCalls::stat(const Place& place) const {
  const FileCallPtr call = CO_TRY(co_await ask({{"stat", place.served}, false, ""}));
  auto entry = co_await onlyEntry(call);
  if (entry || entry.error().code != Code::kNotFound) co_return entry;
  co_return fail(Code::kNotFound, "path '" + place.shown + "' does not exist");
}

Task<Result<std::optional<files::Entry>>> PlaceCalls::look(const Place& place) const {
  auto entry = co_await stat(place);
  if (entry) co_return std::optional(*std::move(entry));
  if (entry.error().code == Code::kNotFound) co_return std::nullopt;
  co_return std::unexpected(std::move(entry).error());
}

Task<Result<files::Entry>> PlaceCalls::makeDirectory(const Place& place) const {
  const FileCallPtr call =
      CO_TRY(co_await ask({{"mkdir", place.served}, false, "file.directory_made"}));
  co_return co_await onlyEntry(call);
}

Task<Result<>> PlaceCalls::makeParent(const Place& place) const {
  const auto parent = placeOf(place.shown.substr(0, place.shown.rfind('/')), "path");
  if (!parent || (co_await stat(*parent)).has_value()) co_return Result<>{};
  CO_TRY(co_await makeDirectory(*parent));
  co_return Result<>{};
}

}  // namespace cloister::api::compat::e2b

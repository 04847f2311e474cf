// SPDX-License-Identifier: Apache-2.0
#include "api/workspace.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "api/http/router.h"
#include "base/clock.h"
#include "orchestrator/core/display_path.h"

namespace cloister::api {
namespace {

namespace json = base::json;
namespace files = wire::files;

constexpr size_t kMaxPathBytes = size_t{4} << 20;  // of all paths of a list; a path may have 4 KiB
constexpr size_t kMaxPath = 4'095;

std::string_view typeName(files::Kind kind) {
  switch (kind) {
    case files::Kind::kFile:
      return "file";
    case files::Kind::kDirectory:
      return "directory";
    case files::Kind::kLink:
      return "link";
    case files::Kind::kEnd:
    case files::Kind::kOther:
    case files::Kind::kChange:
    case files::Kind::kState:
      break;
  }
  return "other";
}

}  // namespace

Result<const model::FileRoot*> rootOf(const Request& request) {
  const auto name = queryText(request, "root");
  if (!name) return nullptr;
  const auto* const found = std::ranges::find(model::kFileRoots, *name, &model::FileRoot::name);
  if (found != std::end(model::kFileRoots)) return found;
  return fail(Code::kInvalid, "query parameter root: must be workspace, home or tmp", "query.root");
}

Result<std::string> checkedPath(std::string path, const std::string& field,
                                const model::FileRoot* root) {
  const model::FileRoot& workspace = model::kFileRoots[0];
  const std::string named = root == nullptr ? "the workspace" : std::string(root->path);
  if (path.size() > kMaxPath || path.contains('\0')) {
    return fail(Code::kInvalid, field + ": must be a path in " + named + ", of at most 4095 bytes",
                field);
  }
  const bool absolute = path.starts_with('/');
  if (absolute && root != nullptr && !files::isWithin(path, root->path)) {
    return fail(Code::kInvalid,
                field + ": must be a path in " + named + ", where root=" + std::string(root->name) +
                    " leads; leave root out for absolute paths",
                field);
  }
  if (!absolute && root != nullptr && root != &workspace) {
    return std::string(root->path) + (path.empty() ? "" : "/") + path;
  }
  // The sandbox's form of the workspace is the shorter one.
  if (absolute && files::isWithin(path, workspace.path)) {
    path.erase(0, std::min(path.size(), workspace.path.size() + 1));
  }
  return path;
}

std::unexpected<Error> about(Error error, const std::string& doing, const std::string& path,
                             const std::string& field) {
  const bool of_path = error.field == "path";
  const std::string shown = orchestrator::displayFilePath(path);
  Error told = std::move(error).within(doing + " " + (shown.empty() ? "a file" : shown));
  // Beyond the session's scope, the field says so.
  if (of_path || told.code != Code::kDenied) told.field = of_path ? field : "";
  return std::unexpected(std::move(told));
}

json::object entryObject(const files::Entry& entry, const std::string& under,
                         const std::string& path, const model::FileRoot* root) {
  std::string mode = "0000";
  for (size_t digit = 0; digit < 4; ++digit)
    mode[3 - digit] = static_cast<char>('0' + ((entry.mode >> (3 * digit)) & 7));
  json::object object = {{"path", shown(under, path, root)},
                         {"type", typeName(entry.kind)},
                         {"size", entry.size},
                         {"mode", mode},
                         {"modified_at", base::formatTime(entry.modified_at)}};
  if (orchestrator::isEscaped(under) || orchestrator::isEscaped(path)) object["escaped"] = true;
  return object;
}

Task<Result<files::Entry>> onlyEntry(FileCallPtr call) {
  files::Entry entry = CO_TRY(co_await call->entry());
  CO_TRY(co_await call->finish());
  co_return entry;
}

Task<Result<Listed>> collect(FileCallPtr call) {
  Listed listed;
  size_t bytes = 0;
  while (const auto part = CO_TRY(co_await call->next())) {
    if (const auto* end = std::get_if<files::EndOfEntries>(&*part)) {
      listed.left_out += end->left_out;
      continue;
    }
    if (!std::holds_alternative<files::Entry>(*part)) {
      co_return fail(Code::kInternal, "the sandbox's file server said something else");
    }
    const auto& entry = std::get<files::Entry>(*part);
    bytes += entry.path.size();
    if (listed.entries.size() < kMaxEntries && bytes <= kMaxPathBytes) {
      listed.entries.push_back(entry);
    } else {
      ++listed.left_out;
    }
  }
  std::ranges::sort(listed.entries, {}, &files::Entry::path);
  co_return listed;
}

std::string shown(const std::string& under, const std::string& path, const model::FileRoot* root) {
  std::string whole = under.empty() || path.empty() ? under + path : under + "/" + path;
  if (whole.empty()) return "";
  if (root == nullptr || !files::isWithin(whole, root->path)) {
    return orchestrator::displayFilePath(whole);
  }
  whole.erase(0, std::min(whole.size(), root->path.size() + 1));
  return orchestrator::displayPath(whole);
}

}  // namespace cloister::api

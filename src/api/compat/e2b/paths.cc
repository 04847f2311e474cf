// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/paths.h"

#include <algorithm>
#include <vector>

#include "api/workspace.h"
#include "model/writable.h"

namespace cloister::api::compat::e2b {
namespace {

bool isWithin(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

}  // namespace

std::string resolvedPath(std::string_view path) {
  std::string whole(path);
  if (whole == "~" || whole.starts_with("~/")) whole.replace(0, 1, model::kHome);
  if (!whole.starts_with('/')) whole = std::string(model::kHome) + "/" + whole;
  std::vector<std::string_view> parts;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string out;
  for (const std::string_view part : parts)
    out += "/" + std::string(part);
  return out.empty() ? "/" : out;
}

Result<std::string> servedPath(std::string_view path, const std::string& field) {
  std::string whole = resolvedPath(path);
  const auto holds = [&](const model::FileRoot& root) { return isWithin(whole, root.path); };
  if (std::ranges::any_of(model::kFileRoots, holds)) return checkedPath(std::move(whole), field);
  return fail(Code::kNotFound, "path '" + whole + "' does not exist; files are in " +
                                   std::string(model::kHome) + ", /workspace and /tmp");
}

std::string baseName(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.empty() ? "/" : name;
}

}  // namespace cloister::api::compat::e2b

// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/copy_place.h"

#include <algorithm>

#include "cli/render/terminal.h"
#include "net/url.h"

namespace cloister::cli {

std::string Place::text() const {
  return local() ? path : session + ":" + joinPath("/workspace", path);
}

Result<Place> parsePlace(std::string_view operand) {
  if (operand.empty()) return fail(Code::kInvalid, "a path is empty");
  const size_t colon = operand.find(':');
  const bool local = colon == std::string_view::npos || operand.substr(0, colon).contains('/');
  if (local) {
    return Place{.session = "", .path = std::string(operand), .into = operand.ends_with('/')};
  }
  if (colon == 0) {
    return fail(Code::kInvalid, "\"" + printable(operand) +
                                    "\" names no session: write SESSION:PATH, or ./:NAME for a "
                                    "file of that name");
  }
  const std::string_view path = operand.substr(colon + 1);
  Place place{.session = std::string(operand.substr(0, colon)),
              .path = TRY(workspacePath(path)),
              .into = path.ends_with('/')};
  place.into = place.into || place.path.empty();
  return place;
}

Result<std::string> workspacePath(std::string_view text) {
  constexpr std::string_view kWorkspace = "/workspace";
  const std::string shown = "the session's path " + printable(text);
  std::string_view rest = text;
  if (rest.starts_with('/')) {
    rest.remove_prefix(std::min(rest.size(), kWorkspace.size()));
    if (!text.starts_with(kWorkspace) || (!rest.empty() && !rest.starts_with('/'))) {
      return fail(Code::kInvalid, shown + ": only what is in /workspace can be reached");
    }
  }
  std::string path;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find('/'));
    if (name == "..") return fail(Code::kInvalid, shown + ": write it without \"..\"");
    if (!name.empty() && name != ".") path = joinPath(path, std::string(name));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return path;
}

std::string nameOf(std::string_view path) {
  while (path.ends_with('/'))
    path.remove_suffix(1);
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name == "." || name == ".." ? "" : std::string(name);
}

std::string joinPath(const std::string& under, const std::string& name) {
  if (under.empty() || name.empty()) return under + name;
  return under + (under.ends_with('/') ? "" : "/") + name;
}

std::string encodePath(std::string_view path) {
  std::string out;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    out.append(at == 0 ? "" : "/").append(net::percentEncode(path.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

}  // namespace cloister::cli

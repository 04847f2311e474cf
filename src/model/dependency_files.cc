// SPDX-License-Identifier: Apache-2.0
// Requirements that files name: PEP 723 (https://peps.python.org/pep-0723/), requirements.txt, and
// package.json.
#include <algorithm>
#include <cctype>
#include <ranges>

#include "model/dependency.h"

namespace cloister::model {
namespace {

namespace json = base::json;

constexpr size_t kMostDeps = 1'000;

std::unexpected<Error> unreadable(std::string_view what) {
  return fail(Code::kInvalid, "deps_from: " + std::string(what), "deps_from");
}

std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view stripped(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && blank(text.back()))
    text.remove_suffix(1);
  return text;
}

// The TOML between "# /// script" and "# ///", without the comment signs; nullopt for no block.
Result<std::optional<std::string>> scriptBlock(std::string_view script) {
  const auto lines = linesOf(script);
  const auto begin = std::ranges::find(lines, std::string_view("# /// script"));
  if (begin == lines.end()) return std::nullopt;
  std::string toml;
  for (auto line = begin + 1; line != lines.end() && line->starts_with('#'); ++line) {
    if (*line == "# ///") return toml;
    if (*line != "#" && !line->starts_with("# ")) break;
    toml += std::string(line->substr(std::min<size_t>(2, line->size()))) + "\n";
  }
  return unreadable("the block \"# /// script\" has no end \"# ///\"");
}

// The strings of a TOML array that begins at the front of `text`.
Result<std::vector<std::string>> stringsOf(std::string_view text) {
  std::vector<std::string> strings;
  for (size_t at = 1; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ']') return strings;
    if (c == '#') at = std::min(text.find('\n', at), text.size());
    if (c != '"' && c != '\'') continue;
    const size_t end = text.find(c, at + 1);
    if (end == std::string_view::npos || strings.size() == kMostDeps) break;
    const std::string_view value = text.substr(at + 1, end - at - 1);
    if (value.contains('\\') || value.contains('\n')) break;
    strings.emplace_back(value);
    at = end;
  }
  return unreadable("the list `dependencies` of the script is malformed");
}

}  // namespace

Result<std::vector<std::string>> depsOfScript(std::string_view script) {
  const std::optional<std::string> toml = TRY(scriptBlock(script));
  if (!toml) return std::vector<std::string>{};
  bool top = true;  // outside of tables
  size_t at = 0;
  for (const std::string_view line : linesOf(*toml)) {
    const std::string_view text = stripped(line);
    top = top && !text.starts_with('[');
    if (top && text.starts_with("dependencies")) {
      const std::string_view rest = stripped(text.substr(std::string_view("dependencies").size()));
      if (rest.starts_with('=')) {
        const size_t open = toml->find('[', at);
        if (open == std::string::npos) return unreadable("`dependencies` is no list");
        return stringsOf(std::string_view(*toml).substr(open));
      }
    }
    at += line.size() + 1;
  }
  return std::vector<std::string>{};
}

// Options, such as other indexes, are refused: the gateway is the only index.
Result<std::vector<std::string>> depsOfRequirements(std::string_view text) {
  std::vector<std::string> deps;
  for (std::string_view line : linesOf(text)) {
    if (const size_t comment = line.find(" #"); comment != std::string_view::npos) {
      line = line.substr(0, comment);
    }
    line = stripped(line);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with('-') || line.ends_with('\\')) {
      return unreadable("requirements.txt: \"" + std::string(line.substr(0, 100)) +
                        "\": options and continued lines are not permitted; name packages only");
    }
    if (deps.size() == kMostDeps) return unreadable("requirements.txt: too many packages");
    deps.emplace_back(line);
  }
  return deps;
}

Result<std::vector<std::string>> depsOfPackageJson(std::string_view text) {
  const auto value = base::parseJson(text);
  const json::object* object = value ? value->if_object() : nullptr;
  if (object == nullptr) return unreadable("package.json: not a JSON object");
  std::vector<std::string> deps;
  const json::value* listed = object->if_contains("dependencies");
  if (listed == nullptr) return deps;
  if (!listed->is_object()) return unreadable("package.json: `dependencies` is no object");
  for (const auto& [name, versions] : listed->get_object()) {
    if (!versions.is_string()) return unreadable("package.json: a version is no string");
    if (deps.size() == kMostDeps) return unreadable("package.json: too many packages");
    const std::string wanted(versions.get_string());
    deps.push_back(std::string(name) + (wanted.empty() || wanted == "*" ? "" : "@" + wanted));
  }
  return deps;
}

}  // namespace cloister::model

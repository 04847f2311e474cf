// SPDX-License-Identifier: Apache-2.0
#include "policy/command/uncovered.h"

#include <algorithm>

#include "model/shown_text.h"
#include "policy/command/programs.h"

namespace cloister::policy {
namespace {

constexpr size_t kShownPlace = 400;

// The parts of an absolute path, without empty parts and ".".
std::vector<std::string_view> partsOf(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0 && path.substr(0, end) != ".") parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

bool decidesCode(std::string_view name) {
  switch (variableNamed(name)) {
    case Variable::kChanges:
    case Variable::kCommand:
    case Variable::kCode:
    case Variable::kFlags:
      return true;
    default:
      return false;
  }
}

// Whether the character may belong to a path. The rest of a word from its first slash on counts as
// a path.
bool inPath(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return letter || static_cast<unsigned char>(c) >= 0x80 || std::string_view("/._-+@%").contains(c);
}

// Variables whose programs make new files there, and load none of them as code.
bool makesFilesOnly(std::string_view name) {
  constexpr std::string_view kNames[] = {"TEMP",   "TEMPDIR",        "TMP",
                                         "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// A directory above an uncovered place, and covered itself.
bool isAbove(std::string_view path) {
  const auto parts = partsOf(path);
  return parts.empty() || (parts.size() == 1 && (parts[0] == "usr" || parts[0] == "var"));
}

// Examines a value. A path may begin within a word, behind an option: -I/tmp/x. `a/b` counts as a
// relative path, since an option `a` cannot be recognised. In text of unknown use (not `code`) a
// lone `..` is punctuation, and `/` or `/usr` are no places of programs.
std::string uncoveredIn(std::string_view value, bool code) {
  for (size_t at = 0; at < value.size();) {
    size_t end = at;
    while (end < value.size() && inPath(value[end]))
      ++end;
    const std::string_view word = value.substr(at, end - at);
    const auto parts = partsOf(word);
    const size_t slash = word.find('/');
    const bool judged = code || slash != std::string_view::npos || word == value;
    if (judged && std::ranges::find(parts, "..") != parts.end()) return std::string(word);
    const bool option = word.starts_with('-') || word.starts_with('@') || word.starts_with('+');
    const bool path = slash == 0 || (option && slash != std::string_view::npos);
    if (path && isUncovered(word.substr(slash)) && (code || !isAbove(word.substr(slash))))
      return std::string(word.substr(slash));
    at = end + 1;
  }
  return "";
}

}  // namespace

bool isUncovered(std::string_view path) {
  const auto parts = partsOf(path);
  if (parts.empty() || std::ranges::find(parts, "..") != parts.end()) return true;
  const std::string_view first = parts[0];
  const std::string_view second = parts.size() > 1 ? parts[1] : std::string_view();
  if (first == "dev") return parts.size() != 2 || second != "null";
  if (first == "tmp" || first == "proc" || first == "run" || first == "sys") return true;
  if (first == "usr") return second.empty() || second == "tmp";
  constexpr std::string_view kOfVar[] = {"", "tmp", "run", "lock"};
  return first == "var" && std::ranges::find(kOfVar, second) != std::end(kOfVar);
}

std::optional<UncoveredVariable> uncoveredVariable(const std::vector<std::string>& env) {
  constexpr std::string_view kAlways = "$`~";         // also where a variable alone is the path
  constexpr std::string_view kInPaths = "\\'\"*?[{";  // quotes and patterns of shells
  for (const std::string& each : env) {
    const size_t equals = std::min(each.find('='), each.size());
    const std::string_view name = std::string_view(each).substr(0, equals);
    const std::string_view value = std::string_view(each).substr(std::min(equals + 1, each.size()));
    if (makesFilesOnly(name)) continue;
    const bool code = decidesCode(name);
    if (const std::string place = uncoveredIn(value, code); !place.empty()) {
      return UncoveredVariable{std::string(name), "names " + model::markedText(place, kShownPlace) +
                                                      ", which an approval does not cover"};
    }
    if (!code) continue;
    const bool path = value.contains('/');
    if (value.find_first_of(kAlways) != std::string_view::npos ||
        (path && value.find_first_of(kInPaths) != std::string_view::npos)) {
      return UncoveredVariable{std::string(name),
                               "may name a place that an approval does not cover: its value is put "
                               "together when it is used"};
    }
  }
  return std::nullopt;
}

}  // namespace cloister::policy

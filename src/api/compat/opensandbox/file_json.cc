// SPDX-License-Identifier: Apache-2.0
#include "api/compat/opensandbox/file_json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/compat/opensandbox/exec_events.h"
#include "base/clock.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;
namespace files = wire::files;

constexpr uint32_t kModeBits = 0777;

std::string_view typeName(files::Kind kind) {
  switch (kind) {
    case files::Kind::kFile:
      return "file";
    case files::Kind::kDirectory:
      return "directory";
    case files::Kind::kLink:
      return "symlink";
    default:
      return "other";
  }
}

// Whether a character is in the class that begins `pattern` ("[a-z]…"); the class is taken off.
bool takeClass(std::string_view& pattern, char c) {
  size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool found = false;
  for (bool first = true; at < pattern.size() && (first || pattern[at] != ']'); first = false) {
    const char low = pattern[at++];
    char high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      high = pattern[at + 1];
      at += 2;
    }
    found = found || (low <= c && c <= high);
  }
  pattern.remove_prefix(std::min(at + 1, pattern.size()));
  return found != negated;
}

// One step of backtracking for each star: a later star makes the earlier ones final, but for "**"
// before "*". `budget` bounds the work.
bool matchesFrom(std::string_view pattern, std::string_view text, uint32_t& budget) {
  while (!pattern.empty()) {
    if (budget == 0) return false;
    --budget;
    if (pattern.front() == '*') {
      const bool crosses = pattern.starts_with("**");
      pattern.remove_prefix(crosses ? 2 : 1);
      // "**/" stands for no directory, too.
      if (crosses && pattern.starts_with('/') && matchesFrom(pattern.substr(1), text, budget)) {
        return true;
      }
      for (size_t taken = 0; taken <= text.size(); ++taken) {
        if (matchesFrom(pattern, text.substr(taken), budget)) return true;
        if (budget == 0 || (taken < text.size() && !crosses && text[taken] == '/')) return false;
      }
      return false;
    }
    if (text.empty()) return false;
    const char c = text.front();
    if (pattern.front() == '[' && pattern.contains(']')) {
      if (c == '/' || !takeClass(pattern, c)) return false;
    } else if (pattern.front() == '?' ? c == '/' : pattern.front() != c) {
      return false;
    } else {
      pattern.remove_prefix(1);
    }
    text.remove_prefix(1);
  }
  return text.empty();
}

}  // namespace

Result<std::string> plainPath(std::string_view path, const std::string& field) {
  if (path.empty()) return fail(Code::kInvalid, field + ": is required", field);
  std::vector<std::string_view> parts;
  if (!path.starts_with('/')) parts.emplace_back("workspace");
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string plain;
  for (const std::string_view part : parts)
    plain += "/" + std::string(part);
  return plain.empty() ? "/" : plain;
}

std::string below(const std::string& under, const std::string& path) {
  return readable(path.empty() ? under : under + "/" + path);
}

int64_t shownMode(uint32_t mode) {
  constexpr int64_t kTen = 10;
  mode &= kModeBits;
  return ((mode >> 6) * kTen + ((mode >> 3) & 7)) * kTen + (mode & 7);
}

Result<uint32_t> readMode(int64_t shown, const std::string& field) {
  constexpr int64_t kTen = 10;
  uint32_t mode = 0;
  uint32_t shift = 0;
  for (int64_t rest = shown; rest > 0; rest /= kTen, shift += 3) {
    if (rest % kTen > 7 || shift > 6) {
      return fail(Code::kInvalid, field + ": must be octal digits such as 644, at most 777", field);
    }
    mode |= static_cast<uint32_t>(rest % kTen) << shift;
  }
  return mode;
}

Result<FileOwnership> readOwnership(base::ObjectReader& reader, std::string_view user) {
  FileOwnership owned;
  constexpr int64_t kMost = 777;
  if (const auto mode = TRY(reader.integer("mode", 0, kMost))) {
    owned.mode = TRY(readMode(*mode, reader.pathOf("mode")));
  }
  for (const std::string_view name : {"owner", "group"}) {
    const std::string who = TRY(reader.text(name)).value_or("");
    if (who.empty() || who == user) continue;
    return fail(Code::kUnsupported,
                reader.pathOf(name) + ": all files of a sandbox are its own user's, " +
                    std::string(user) + "; leave it out",
                reader.pathOf(name));
  }
  return owned;
}

json::object fileInfo(const files::Entry& entry, const std::string& path, std::string_view user) {
  // The file server tells no time of creation; the last change is the nearest known.
  const std::string modified = base::formatTime(entry.modified_at);
  return {{"path", path},           {"type", typeName(entry.kind)},
          {"size", entry.size},     {"modified_at", modified},
          {"created_at", modified}, {"owner", user},
          {"group", user},          {"mode", shownMode(entry.mode)}};
}

bool matchesPattern(std::string_view pattern, std::string_view path) {
  constexpr uint32_t kMostSteps = 100'000;
  uint32_t budget = kMostSteps;
  if (pattern.empty() || matchesFrom(pattern, path, budget)) return true;
  budget = kMostSteps;
  return matchesFrom(pattern, path.substr(path.rfind('/') + 1), budget);  // npos + 1 is 0
}

std::pair<std::string, uint64_t> replacedAll(std::string text, std::string_view from,
                                             std::string_view to) {
  std::string result;
  uint64_t count = 0;
  size_t at = 0;
  for (size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    result.append(text, at, found - at).append(to);
    at = found + from.size();
    ++count;
  }
  if (count == 0) return {std::move(text), 0};
  result.append(text, at);
  return {std::move(result), count};
}

}  // namespace cloister::api::compat::opensandbox

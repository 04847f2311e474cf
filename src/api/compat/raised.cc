// SPDX-License-Identifier: Apache-2.0
#include "api/compat/raised.h"

#include <algorithm>
#include <vector>

namespace cloister::api::compat {
namespace {

constexpr std::string_view kPython = "Traceback (most recent call last):\n";

std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    lines.push_back(line);
  }
  return lines;
}

bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '$';
}

// "Name: value" or "Name"; nullopt for another line.
std::optional<Raised> readHead(std::string_view line) {
  constexpr std::string_view kUncaught = "Uncaught ";
  if (line.starts_with(kUncaught)) line.remove_prefix(kUncaught.size());
  const auto end = std::ranges::find_if_not(line, isNameCharacter);
  const std::string_view name(line.begin(), end);
  std::string_view rest = line.substr(name.size());
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return std::nullopt;
  if (rest.empty()) return Raised{.name = std::string(name), .value = "", .traceback = ""};
  if (!rest.starts_with(": ")) return std::nullopt;
  return Raised{.name = std::string(name), .value = std::string(rest.substr(2)), .traceback = ""};
}

// Python's: behind the last header, the first line without indentation begins the message.
std::optional<Raised> readPython(std::string_view text) {
  const size_t at = text.rfind(kPython);
  if (at == std::string_view::npos) return std::nullopt;
  std::optional<Raised> raised;
  for (const std::string_view line : linesOf(text.substr(at + kPython.size()))) {
    if (raised) {
      raised->value += "\n" + std::string(line);
    } else if (!line.empty() && line[0] != ' ') {
      raised = readHead(line);
      if (!raised) return std::nullopt;
    }
  }
  return raised;
}

// V8's: a message, then lines that begin with "    at ".
std::optional<Raised> readJavaScript(std::string_view text) {
  const auto lines = linesOf(text);
  for (size_t i = lines.size(); i-- > 0;) {
    if (lines[i].starts_with(' ') || lines[i].empty()) continue;
    const bool named = lines[i].contains("Error") || lines[i].starts_with("Uncaught ");
    auto raised = named ? readHead(lines[i]) : std::nullopt;
    if (raised) return raised;
  }
  return std::nullopt;
}

}  // namespace

size_t tracebackBegin(std::string_view text) {
  for (size_t at = text.find(kPython); at != std::string_view::npos;
       at = text.find(kPython, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return at;
  }
  return std::string_view::npos;
}

std::optional<Raised> readTraceback(std::string_view text) {
  auto raised = readPython(text);
  if (!raised) raised = readJavaScript(text);
  if (raised) raised->traceback = text;
  return raised;
}

}  // namespace cloister::api::compat

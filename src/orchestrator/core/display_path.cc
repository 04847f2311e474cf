// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/display_path.h"

#include <algorithm>
#include <cstdint>

#include "base/json.h"
#include "wire/files.h"

namespace cloister::orchestrator {
namespace {

bool isConfined(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return true;
}

// Control characters (C0, DEL, C1) and the bidirectional controls U+200E…F, U+202A…E, U+2066…9.
bool hasControls(std::string_view text) {
  for (size_t i = 0; i < text.size(); i++) {
    const auto at = [&](size_t n) {
      return i + n < text.size() ? static_cast<uint8_t>(text[i + n]) : uint8_t{0};
    };
    if (at(0) < 0x20 || at(0) == 0x7f) return true;
    if (at(0) == 0xc2 && at(1) >= 0x80 && at(1) <= 0x9f) return true;
    if (at(0) != 0xe2) continue;
    if (at(1) == 0x80 && (at(2) == 0x8e || at(2) == 0x8f || (at(2) >= 0xa8 && at(2) <= 0xae))) {
      return true;
    }
    if (at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9) return true;
  }
  return false;
}

}  // namespace

bool isEscaped(std::string_view path) {
  return !base::isUtf8(path) || hasControls(path);
}

std::string displayPath(std::string_view path) {
  if (!isConfined(path)) return "";
  if (!isEscaped(path)) return std::string(path);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string shown;
  for (const char c : path) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte > 0x20 && byte < 0x7f && byte != '%') {
      shown += c;
    } else {
      (shown += '%') += kHex[byte >> 4];
      shown += kHex[byte & 15];
    }
  }
  return shown;
}

std::string displayFilePath(std::string_view path) {
  if (path.empty()) return std::string(model::kFileRoots[0].path);
  for (const model::FileRoot& root : model::kFileRoots) {
    if (!wire::files::isWithin(path, root.path)) continue;
    if (path.size() == root.path.size()) return std::string(path);
    const std::string rest = displayPath(path.substr(root.path.size() + 1));
    return rest.empty() ? rest : std::string(root.path) + "/" + rest;
  }
  return displayPath(path);
}

}  // namespace cloister::orchestrator

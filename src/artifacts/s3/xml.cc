// SPDX-License-Identifier: Apache-2.0
#include "artifacts/s3/xml.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace cloister::artifacts::xml {
namespace {

constexpr std::pair<std::string_view, char> kEntities[] = {
    {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};

// The character of "&name;" without its ends; 0 for none of ASCII.
char decodedEntity(std::string_view name) {
  for (const auto& [word, character] : kEntities) {
    if (word == name) return character;
  }
  if (!name.starts_with('#')) return 0;
  const bool hex = name.starts_with("#x");
  const std::string_view digits = name.substr(hex ? 2 : 1);
  uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && code < 0x80 ? static_cast<char>(code) : '\0';
}

}  // namespace

std::vector<std::string_view> elements(std::string_view text, std::string_view name) {
  const std::string open = "<" + std::string(name) + ">";
  const std::string close = "</" + std::string(name) + ">";
  std::vector<std::string_view> found;
  for (size_t at = text.find(open); at != std::string_view::npos; at = text.find(open, at)) {
    at += open.size();
    const size_t end = text.find(close, at);
    if (end == std::string_view::npos) break;
    found.push_back(text.substr(at, end - at));
    at = end + close.size();
  }
  return found;
}

std::string textOf(std::string_view text, std::string_view name) {
  const auto found = elements(text, name);
  std::string out;
  if (found.empty()) return out;
  const std::string_view raw = found.front();
  for (size_t at = 0; at < raw.size(); ++at) {
    constexpr size_t kLongest = 8;
    const size_t end = raw[at] == '&' ? raw.find(';', at) : std::string_view::npos;
    const bool entity = end != std::string_view::npos && end - at <= kLongest;
    const char decoded = entity ? decodedEntity(raw.substr(at + 1, end - at - 1)) : '\0';
    out += decoded != '\0' ? decoded : raw[at];
    if (decoded != '\0') at = end;
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const std::pair<std::string_view, char>* entity = nullptr;
    for (const auto& each : kEntities) {
      if (each.second == c) entity = &each;
    }
    if (entity == nullptr) {
      out += c;
    } else {
      out.append("&").append(entity->first).append(";");
    }
  }
  return out;
}

}  // namespace cloister::artifacts::xml

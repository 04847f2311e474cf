// SPDX-License-Identifier: Apache-2.0
// Misleading characters. Sources: UAX #9 and #31, UTS #39 (the look-alikes of Latin letters on a
// keyboard), Unicode 15.
#include <array>
#include <cstdio>

#include "policy/command/syntax.h"

namespace cloister::policy {
namespace {

constexpr size_t kMaxFound = 8;

struct Range {
  uint32_t first;
  uint32_t last;
  const char* kind;
  const char* what;
};

constexpr auto kSuspicious = std::to_array<Range>({
    {0x00, 0x08, "control_character", "a control character"},
    {0x0b, 0x1f, "control_character", "a control character"},
    {0x7f, 0x9f, "control_character", "a control character"},
    {0xa0, 0xa0, "unusual_space", "a no-break space"},
    {0xad, 0xad, "invisible_character", "a soft hyphen"},
    {0x34f, 0x34f, "invisible_character", "an invisible character"},
    {0x61c, 0x61c, "invisible_character", "a character that turns the direction of text"},
    {0x115f, 0x1160, "invisible_character", "an invisible character"},
    {0x1680, 0x1680, "unusual_space", "a space beyond ASCII"},
    {0x17b4, 0x17b5, "invisible_character", "an invisible character"},
    {0x180b, 0x180e, "invisible_character", "an invisible character"},
    {0x2000, 0x200a, "unusual_space", "a space beyond ASCII"},
    {0x200b, 0x200f, "invisible_character", "an invisible character"},
    {0x2010, 0x2012, "look_alike", "a hyphen beyond ASCII"},
    {0x2028, 0x202e, "invisible_character", "a character that turns or breaks text"},
    {0x202f, 0x202f, "unusual_space", "a space beyond ASCII"},
    {0x2044, 0x2044, "look_alike", "a slash beyond ASCII"},
    {0x205f, 0x205f, "unusual_space", "a space beyond ASCII"},
    {0x2060, 0x206f, "invisible_character", "an invisible character"},
    {0x2212, 0x2212, "look_alike", "a minus sign beyond ASCII"},
    {0x2215, 0x2215, "look_alike", "a slash beyond ASCII"},
    {0x3000, 0x3000, "unusual_space", "a space beyond ASCII"},
    {0x3164, 0x3164, "invisible_character", "an invisible character"},
    {0xfe00, 0xfe0e, "invisible_character", "a variation selector"},
    {0xfeff, 0xfeff, "invisible_character", "a byte order mark"},
    {0xff00, 0xffef, "look_alike", "a full-width or half-width form"},
    {0xfff0, 0xffff, "invisible_character", "a special character"},
    {0x1d400, 0x1d7ff, "look_alike", "a mathematical letter"},
    {0xe0000, 0x10ffff, "invisible_character", "a tag or private character"},
});

// Greek, Cyrillic, Armenian, Cherokee: letters of these in a word with Latin letters.
bool otherScript(uint32_t c) {
  return (c >= 0x370 && c <= 0x58f) || (c >= 0x13a0 && c <= 0x13ff) || (c >= 0x250 && c <= 0x2af);
}

bool letter(uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The code point at `at` and its length; length 0 for malformed UTF-8 (RFC 3629).
std::pair<uint32_t, size_t> decode(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return {lead, 1};
  size_t length = 0;
  if (lead >= 0xc2 && lead <= 0xdf) length = 2;
  if (lead >= 0xe0 && lead <= 0xef) length = 3;
  if (lead >= 0xf0 && lead <= 0xf4) length = 4;
  if (length == 0 || at + length > text.size()) return {0, 0};
  uint32_t value = lead & (0xffU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<uint8_t>(text[at + i]);
    if ((next & 0xc0) != 0x80) return {0, 0};
    value = (value << 6) | (next & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast.at(length) || (value >= 0xd800 && value <= 0xdfff) || value > 0x10ffff)
    return {0, 0};
  return {value, length};
}

class Finder {
 public:
  Finder(std::string_view text, const Span* inside) : text_(text), inside_(inside) {}

  std::vector<Doubt> run() {
    for (size_t at = 0; at < text_.size() && found_.size() < kMaxFound;) {
      const auto byte = static_cast<uint8_t>(text_[at]);
      if (byte >= 0x20 && byte < 0x7f) [[likely]] {
        note(byte);
        ++at;
        continue;
      }
      const auto [value, length] = decode(text_, at);
      if (length == 0) {
        add("malformed_utf8", "bytes that are not UTF-8", at, 1);
        break;
      }
      look(value, at, length);
      at += length;
    }
    return std::move(found_);
  }

 private:
  void note(uint32_t value) {
    if (value == ' ' || value == '/') latin_ = other_ = false;
    latin_ = latin_ || letter(value);
  }

  void look(uint32_t value, size_t at, size_t length) {
    note(value == '\t' || value == '\n' ? ' ' : value);
    for (const Range& range : kSuspicious) {
      if (value < range.first || value > range.last) continue;
      std::array<char, 16> code{};
      std::snprintf(code.data(), code.size(), " (U+%04X)", value);
      add(range.kind, std::string(range.what) + code.data(), at, length);
    }
    other_ = other_ || otherScript(value);
    if (latin_ && other_) {
      add("look_alike", "a word that mixes Latin letters with those of another script", at, length);
      latin_ = other_ = false;
    }
  }

  void add(std::string_view kind, std::string what, size_t at, size_t length) {
    const Span span{.begin = static_cast<uint32_t>(at), .end = static_cast<uint32_t>(at + length)};
    found_.push_back({.kind = std::string(kind),
                      .what = std::move(what),
                      .span = inside_ != nullptr ? *inside_ : span});
  }

  const std::string_view text_;
  const Span* const inside_;
  bool latin_ = false;  // a Latin letter in the word so far
  bool other_ = false;
  std::vector<Doubt> found_;
};

}  // namespace

std::vector<Doubt> suspiciousCharacters(std::string_view text, const Span* inside) {
  return Finder(text, inside).run();
}

}  // namespace cloister::policy

// SPDX-License-Identifier: Apache-2.0
#include "model/shown_text.h"

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "model/confusables.h"

namespace cloister::model {
namespace {

// The code point at `at`, and its number of bytes; 0 bytes for invalid UTF-8.
struct Decoded {
  char32_t point = 0;
  size_t bytes = 0;
};

Decoded decodeAt(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (at + bytes > text.size() || !base::isUtf8(text.substr(at, bytes))) return {};
  char32_t point = lead & (0xffU >> (bytes + 1));
  for (size_t i = 1; i < bytes; i++)
    point = (point << 6U) | (static_cast<uint8_t>(text[at + i]) & 0x3fU);
  return {point, bytes};
}

using Range = ConfusableRange;

// Invisible characters, and characters that change the display of others: Unicode's categories Cc,
// Cf, Zl, Zp, Co and other invisible ones.
constexpr Range kUnseen[] = {
    {0x00, 0x1f},       {0x7f, 0x9f},        {0xad, 0xad},       {0x34f, 0x34f},
    {0x600, 0x605},     {0x61c, 0x61c},      {0x6dd, 0x6dd},     {0x70f, 0x70f},
    {0x890, 0x891},     {0x8e2, 0x8e2},      {0x115f, 0x1160},   {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x2000, 0x200f},    {0x2028, 0x202f},   {0x205f, 0x206f},
    {0x2800, 0x2800},   {0x3000, 0x3000},    {0x3164, 0x3164},   {0xe000, 0xf8ff},
    {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},    {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
    {0x110bd, 0x110bd}, {0x110cd, 0x110cd},  {0x13430, 0x1345f}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff},
};

bool isIn(const auto& ranges, char32_t point) {
  return std::ranges::any_of(
      ranges, [point](const Range& r) { return r.first <= point && point <= r.last; });
}

std::string escapeOf(std::string_view bytes, char32_t point) {
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  if (point == '\\') return "\\\\";
  char text[16];
  if (bytes.size() == 1) {
    std::snprintf(text, sizeof text, "\\x%02x",
                  static_cast<unsigned>(static_cast<uint8_t>(bytes[0])));
  } else {
    std::snprintf(text, sizeof text, "\\u{%x}", static_cast<unsigned>(point));
  }
  return text;
}

// Letters of other alphabets, deceptive within a word of ASCII letters.
constexpr Range kForeign[] = {{0x1c0, 0x1c3},   {0x370, 0x1dff},    {0x2c00, 0x2dff},
                              {0xa4d0, 0xa4ff}, {0xa640, 0xa6ff},   {0xab30, 0xabbf},
                              {0xfb00, 0xfdff}, {0x10000, 0x1afff}, {0x1d400, 0x1d7ff}};
// Small capitals and other forms of Latin letters: no sign of another alphabet.
constexpr Range kPhonetic[] = {{0x1d00, 0x1dbf}};
// Combining marks, drawn over the character before, and full-width forms of ASCII.
constexpr Range kCombining[] = {
    {0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}};
constexpr Range kFullWidth[] = {{0xff01, 0xff5e}};
constexpr Range kTurning[] = {{0x61c, 0x61c}, {0x200e, 0x200f}, {0x202a, 0x202e}, {0x2066, 0x2069}};
constexpr Range kNoWidth[] = {{0x200b, 0x200d}, {0x2060, 0x2060}, {0xfeff, 0xfeff}};
constexpr size_t kWord = 4096;  // bytes of a word examined together

const Confusable* confusable(char32_t point) {
  const auto* found = std::ranges::lower_bound(kConfusables, point, {}, &Confusable::point);
  return found != std::end(kConfusables) && found->point == point ? found : nullptr;
}

bool isAsciiLetter(char32_t point) {
  return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z');
}

bool isDigit(char32_t point) {
  return point >= '0' && point <= '9';
}

bool isLatin(char32_t point) {
  return isAsciiLetter(point) || (point >= 0xc0 && point <= 0x24f);
}

// A sequence of letters, digits and _.
struct Word {
  size_t end = 0;
  bool latin = false;    // has a Latin letter
  bool natural = false;  // has a letter without a Latin look-alike, which shows the word as foreign
};

Word wordAt(std::string_view text, size_t at) {
  Word word{.end = at};
  while (word.end < text.size() && word.end - at < kWord) {
    const Decoded next = decodeAt(text, word.end);
    const bool plain = isAsciiLetter(next.point) || isDigit(next.point) || next.point == '_';
    if (!plain) {
      const Confusable* like = next.point < 0x80 ? nullptr : confusable(next.point);
      const bool foreign = next.point >= 0x80 && isIn(kForeign, next.point);
      const bool form = isIn(kAsciiForms, next.point);
      const bool letter = foreign || form || isLatin(next.point) || isIn(kCombining, next.point) ||
                          (like != nullptr && isAsciiLetter(static_cast<uint8_t>(like->like)));
      if (next.bytes == 0 || !letter) break;
      word.natural =
          word.natural || (foreign && !form && like == nullptr && !isIn(kPhonetic, next.point));
    }
    word.latin = word.latin || isLatin(next.point);
    word.end += next.bytes;
  }
  return word;
}

std::string unseenWhat(char32_t point) {
  if (isIn(kTurning, point)) return "turns the direction of text";
  if (isIn(kNoWidth, point)) return "has no width";
  if (point < 0x20 || (point >= 0x7f && point <= 0x9f)) return "control character";
  return "cannot be seen";
}

// Why a character deceives; "" if not. `word`: the surrounding word.
std::string deceptive(char32_t point, const Word& word) {
  if (point < 0x80) return "";
  if (const Confusable* like = confusable(point)) {
    // A word of another alphabet with unmistakable letters does not deceive.
    const auto ascii = static_cast<uint8_t>(like->like);
    if ((isAsciiLetter(ascii) || isDigit(ascii)) && word.natural && !word.latin) return "";
    return std::string(like->script) + ", looks like \"" + like->like + "\"";
  }
  if (isIn(kFullWidth, point)) {
    return std::string("full width, looks like \"") + static_cast<char>(point - 0xff01 + '!') +
           "\"";
  }
  if (isIn(kAsciiForms, point)) return "another form of ASCII characters";
  if (isIn(kCombining, point)) return "combining mark";
  if (word.latin && isIn(kForeign, point)) return "of another alphabet, in a word of Latin letters";
  return "";
}

// Calls each(offset, bytes, code point, what) for each character. `what` is "" for an ordinary
// character; each byte of invalid text counts as a character.
template <class Each>
void forEachCharacter(std::string_view text, Each each) {
  Word word;
  for (size_t at = 0; at < text.size();) {
    if (at >= word.end) word = wordAt(text, at);
    const Decoded next = decodeAt(text, at);
    const std::string_view bytes = text.substr(at, std::max<size_t>(next.bytes, 1));
    std::string what = deceptive(next.point, at < word.end ? word : Word{});
    if (next.bytes == 0) {
      what = "not UTF-8";
    } else if (next.point != ' ' && isIn(kUnseen, next.point)) {
      what = unseenWhat(next.point);
    }
    if (!each(at, bytes, next.point, what)) return;
    at += bytes.size();
  }
}

std::string shown(std::string_view text, size_t most, bool marked) {
  std::string out;
  size_t done = 0;
  const auto add = [&](size_t at, std::string_view bytes, char32_t point, const std::string& what) {
    const bool hidden = point != ' ' && isIn(kUnseen, point);  // includes invalid text, as 0
    const bool plain = point != '\\' && !hidden && (!marked || what.empty());
    const std::string piece = plain ? std::string(bytes) : escapeOf(bytes, point);
    if (out.size() + piece.size() > most) return false;
    out += piece;
    done = at + bytes.size();
    return true;
  };
  forEachCharacter(text, add);
  if (done < text.size()) out += " [" + std::to_string(text.size() - done) + " more bytes]";
  return out;
}

}  // namespace

std::string safeText(std::string_view text, size_t most) {
  return shown(text, most, false);
}

std::string markedText(std::string_view text, size_t most) {
  return shown(text, most, true);
}

std::vector<Unusual> unusualIn(std::string_view text, bool lines, size_t most, uint64_t& left_out) {
  std::vector<Unusual> found;
  forEachCharacter(text, [&](size_t at, std::string_view bytes, char32_t point, std::string what) {
    const bool usual = what.empty() || (lines && (point == '\n' || point == '\t'));
    if (usual) return true;
    if (found.size() == most) {
      ++left_out;
      return true;
    }
    // For a byte of invalid text, the byte itself.
    const char32_t shown = what == "not UTF-8" ? static_cast<uint8_t>(bytes[0]) : point;
    found.push_back({at, shown, std::move(what)});
    return true;
  });
  return found;
}

std::string codepointName(char32_t point) {
  char text[16];
  std::snprintf(text, sizeof text, "U+%04X", static_cast<unsigned>(point));
  return text;
}

}  // namespace cloister::model

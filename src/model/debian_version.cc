// SPDX-License-Identifier: Apache-2.0
#include "model/debian_version.h"

#include <algorithm>
#include <charconv>

namespace cloister::model {
namespace {

constexpr size_t kMostVersion = 256;

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// "~" sorts before the end of a part, letters before everything else.
int orderOf(char c) {
  constexpr int kBehindLetters = 256;
  if (c == '~') return -1;
  if (isLetter(c)) return c;
  return c + kBehindLetters;
}

// The order of the next character of the part without digits; 0 at its end.
int orderAt(std::string_view text) {
  return text.empty() || isDigit(text[0]) ? 0 : orderOf(text[0]);
}

std::string_view takeDigits(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

// Parts without digits and numbers in turn.
std::strong_ordering compareParts(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    while ((!a.empty() && !isDigit(a[0])) || (!b.empty() && !isDigit(b[0]))) {
      const auto order = orderAt(a) <=> orderAt(b);
      if (order != 0) return order;
      a.remove_prefix(1);  // equal and not at an end: both have a character
      b.remove_prefix(1);
    }
    const std::string_view first = takeDigits(a);
    const std::string_view second = takeDigits(b);
    auto order = first.size() <=> second.size();
    if (order == 0) order = first.compare(second) <=> 0;
    if (order != 0) return order;
  }
  return std::strong_ordering::equal;
}

bool isPart(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](char c) {
    return isDigit(c) || isLetter(c) || c == '.' || c == '+' || c == '~' || more.contains(c);
  });
}

}  // namespace

std::optional<DebianVersion> DebianVersion::parse(std::string_view text) {
  if (text.empty() || text.size() > kMostVersion) return std::nullopt;
  DebianVersion out;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    const std::string_view digits = text.substr(0, colon);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out.epoch);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    text.remove_prefix(colon + 1);
  }
  const size_t hyphen = text.rfind('-');
  out.upstream = text.substr(0, hyphen);
  if (hyphen != std::string_view::npos) {
    out.revision = text.substr(hyphen + 1);
    if (out.revision.empty()) return std::nullopt;
  }
  if (out.upstream.empty() || !isPart(out.upstream, "-:") || !isPart(out.revision, "")) {
    return std::nullopt;
  }
  return out;
}

std::strong_ordering operator<=>(const DebianVersion& a, const DebianVersion& b) {
  if (const auto order = a.epoch <=> b.epoch; order != 0) return order;
  if (const auto order = compareParts(a.upstream, b.upstream); order != 0) return order;
  return compareParts(a.revision, b.revision);
}

}  // namespace cloister::model

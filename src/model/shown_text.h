// SPDX-License-Identifier: Apache-2.0
// Text from anywhere, for eyes: what cannot be seen, what turns the direction of text, and what can
// be taken for another character is marked, so that no two texts look alike. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::model {

// Text from anywhere, for a terminal or a mail: one line of printable characters. Control and
// format characters, those that turn the direction of text or have no width, line ends, and bytes
// that are not UTF-8 are written as escapes (\n, \x1b, \u{202e}), so is the backslash; what is over
// `most` bytes is left out, and says how much.
std::string safeText(std::string_view text, size_t most);

// The same for those who decide: what can be taken for ASCII (model/confusables.h, other alphabets
// within a word of ASCII letters, combining marks, full-width forms) is written as an escape, too.
std::string markedText(std::string_view text, size_t most = std::string_view::npos);

// A character that would not be seen as what it is.
struct Unusual {
  size_t offset = 0;  // in bytes
  char32_t point = 0;
  std::string what;  // "Cyrillic, looks like \"a\""
};
// Those of `text`, at most `most`; the others are counted in `left_out`. With `lines`, line feeds
// and tabs are usual.
std::vector<Unusual> unusualIn(std::string_view text, bool lines, size_t most, uint64_t& left_out);

// "U+0430".
std::string codepointName(char32_t point);

}  // namespace cloister::model

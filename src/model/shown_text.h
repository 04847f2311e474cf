// SPDX-License-Identifier: Apache-2.0
// Text of any origin, for people: invisible characters, characters that change the direction of
// text, and look-alikes of other characters are marked, so that no two texts look alike. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::model {

// Any text for a terminal or a mail: a line of printable characters. Escapes (\n, \x1b, \u{202e})
// replace control and format characters, changes of direction, characters without width, line ends,
// invalid UTF-8, and the backslash. Text beyond `most` bytes is left out, with a note of its size.
std::string safeText(std::string_view text, size_t most);

// The same for approvers: escapes also replace characters that look like ASCII
// (model/confusables.h, other alphabets within a word of ASCII letters, combining marks, full-width
// forms).
std::string markedText(std::string_view text, size_t most = std::string_view::npos);

// A character whose display deceives.
struct Unusual {
  size_t offset = 0;  // in bytes
  char32_t point = 0;
  std::string what;  // "Cyrillic, looks like \"a\""
};
// The deceptive characters of `text`, at most `most`; `left_out` counts the others. With `lines`,
// line feeds and tabs are ordinary.
std::vector<Unusual> unusualIn(std::string_view text, bool lines, size_t most, uint64_t& left_out);

// "U+0430".
std::string codepointName(char32_t point);

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
// What programs wrote, as text that a model and a terminal can be shown. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cloister::api::mcp {

// UTF-8 without control characters but tab and newline: escape sequences of terminals are left out,
// bytes that are no UTF-8 become U+FFFD, "\r\n" becomes "\n". Of a line that was drawn anew, as
// progress is, after each "\r", the last that is not blank is left.
std::string plainText(std::string_view bytes);

struct Excerpt {
  std::string text;
  bool whole = true;
};
// At most about `most` bytes: the head and the tail, and between them a line that says how much is
// left out, and `remedy`. `total`: what the program wrote, of which `bytes` were kept.
Excerpt excerpt(std::string_view bytes, uint64_t total, size_t most, std::string_view remedy);

// The last line that is not blank, of at most 200 bytes; "" if there is none.
std::string lastLine(std::string_view bytes);

}  // namespace cloister::api::mcp

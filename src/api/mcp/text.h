// SPDX-License-Identifier: Apache-2.0
// The output of programs, as text fit for a model and a terminal. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cloister::api::mcp {

// UTF-8 without control characters except tab and newline: escape sequences of terminals are
// dropped, invalid bytes become U+FFFD, "\r
// " becomes "
// ". A redrawn line, such as a progress bar with "\r", becomes its last nonblank form.
std::string plainText(std::string_view bytes);

struct Excerpt {
  std::string text;
  bool whole = true;
};
// About `most` bytes at most: the head and the tail, and between them a line with the number of
// bytes left out, and `remedy`. `total`: the bytes written by the program, of which `bytes` were
// kept.
Excerpt excerpt(std::string_view bytes, uint64_t total, size_t most, std::string_view remedy);

// The last nonblank line, at most 200 bytes; "" without one.
std::string lastLine(std::string_view bytes);

}  // namespace cloister::api::mcp

// SPDX-License-Identifier: Apache-2.0
// The size of a program's terminal, in characters.
#pragma once

#include <cstdint>

namespace cloister::model {

struct TerminalSize {
  uint16_t cols = 80;
  uint16_t rows = 24;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

// Maximum of either side: beyond any screen, and small enough for programs that allocate the area.
inline constexpr uint16_t kMaxTerminalSide = 4096;

constexpr bool isSize(TerminalSize size) {
  return size.cols > 0 && size.cols <= kMaxTerminalSide && size.rows > 0 &&
         size.rows <= kMaxTerminalSide;
}

}  // namespace cloister::model

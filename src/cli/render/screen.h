// SPDX-License-Identifier: Apache-2.0
// How this command writes: the flags --output and the width of the terminal. Set once, before the
// command begins, and then only read.
#pragma once

#include <cstddef>

namespace cloister::cli {

struct Screen {
  bool yaml = false;    // structured answers as YAML in place of JSON
  bool wide = false;    // tables with all columns, nothing cut off
  size_t columns = 80;  // the width that tables must fit
};

const Screen& screen();
void setScreen(Screen screen);

// The width of the terminal on stdout, else $COLUMNS, else `otherwise`.
size_t columnsHere(size_t otherwise = 80);
// What is piped is read by a program, from which nothing is cut off.
inline constexpr size_t kPiped = 1000;

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/render/terminal.h"

#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

std::string filtered(std::string_view text, size_t step) {
  TerminalFilter filter;
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    out += filter(text.substr(at, step));
  return out;
}

void expectFiltered(std::string_view text, std::string_view wanted) {
  for (size_t step = 1; step <= text.size(); ++step)
    EXPECT_EQ(filtered(text, step), wanted) << "in pieces of " << step;
}

TEST(TerminalFilter, TextColoursAndLinesPass) {
  expectFiltered("plain\tgrün\r\n", "plain\tgrün\r\n");
  expectFiltered("\x1b[1;31mred\x1b[0m\x1b[38:5:1mx", "\x1b[1;31mred\x1b[0m\x1b[38:5:1mx");
}

TEST(TerminalFilter, WhatATerminalWouldObeyIsShown) {
  expectFiltered("\x1b]52;c;cm0=\x07!", "^[]52;c;cm0=^G!");  // writes the clipboard
  expectFiltered("\x1b]0;title\x1b\\", "^[]0;title^[\\");
  expectFiltered("\x1b[2J\x1b[6n", "^[[2J^[[6n");  // clears; asks for an answer on stdin
  expectFiltered(
      "\x1b"
      "c\x1b\x1b[31m",
      "^[c^[\x1b[31m");
  expectFiltered("\x9d", "\x9d");  // alone not UTF-8, so no control
  expectFiltered(
      "\xc2\x9d"
      "52;c;x\xc2\x9c",
      "?52;c;x?");                         // OSC and ST as C1 controls
  expectFiltered("\xc2\xa7", "\xc2\xa7");  // a section sign
}

TEST(TerminalFilter, AnEndlessSequenceIsBounded) {
  TerminalFilter filter;
  std::string out = filter("\x1b[");
  for (int i = 0; i < 1000; ++i)
    out += filter("1111111111");
  EXPECT_GT(out.size(), 9'000u);
}

TEST(Printable, HasNoControls) {
  EXPECT_EQ(printable("a\nb\x1b[1m\x7f\xc2\x9d é"), "a?b?[1m?\xc2? é");
}

TEST(Printable, KeepsTheOrderOfWhatIsAroundIt) {
  EXPECT_EQ(printable("a\u202eb\u2066c\u061cd\u2028e\u200ff\xe2\x80"), "a?b?c?d?e?f\xe2\x80");
  EXPECT_EQ(printable("“—” é \u200d ⠋"), "“—” é \u200d ⠋");
}

}  // namespace
}  // namespace cloister::cli

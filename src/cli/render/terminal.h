// SPDX-License-Identifier: Apache-2.0
// Output to the user's terminal. Output of a sandbox is hostile: on a terminal only text, colours
// and line movement pass; other control sequences are shown instead of obeyed (window titles,
// clipboard writes, cursor reports). Files and pipes get every byte unchanged.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"

namespace cloister::cli {

bool isTerminal(int fd);
// On a terminal, without NO_COLOR (no-color.org) and TERM=dumb.
bool mayColour(int fd);

// Writes all bytes; false if the reader is gone.
bool writeTo(int fd, std::string_view bytes);

// Filters a stream; keeps a piece's incomplete sequence.
class TerminalFilter {
 public:
  std::string operator()(std::string_view bytes);

 private:
  void text(char c, std::string& out);
  std::string sequence_;  // ESC and the following bytes, or the first byte of a C1 control in UTF-8
};

// A line of hostile text for a table or a message: control characters and reordering characters
// become '?'.
std::string printable(std::string_view text);

// A spinner with the time on stderr, after half a second without output; nothing unless stderr is a
// terminal.
class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  [[nodiscard]] bool active() const { return active_; }
  void tick(std::string_view what);
  void clear();  // before anything else is written
  void stop();   // clears, and never shows again

 private:
  bool active_;
  bool shown_ = false;
  size_t frame_ = 0;
  base::Monotonic start_ = base::monotonicNow();
};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/render/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace cloister::cli {

bool isTerminal(int fd) {
  return ::isatty(fd) == 1;
}

bool mayColour(int fd) {
  const char* no = ::getenv("NO_COLOR");
  const char* term = ::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return isTerminal(fd) && !dumb && (no == nullptr || *no == 0);
}

bool writeTo(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

namespace {

constexpr char kEscape = '\x1b';
constexpr char kC1Lead = '\xc2';  // U+0080 to U+009F are C2 80 to C2 9F in UTF-8

bool isColourPart(char c) {
  return (c >= '0' && c <= '9') || c == ';' || c == ':';
}

std::string visible(std::string_view sequence) {
  std::string out = "^[";
  out.append(sequence.substr(1));
  return out;
}

// The length of a character at the beginning of `text` that reorders the surrounding text or ends a
// line (Unicode: Bidi_Control, line and paragraph separators), or 0.
size_t reorders(std::string_view text) {
  const auto last = [&](char from, char to) { return text[2] >= from && text[2] <= to; };
  if (text.starts_with("\xd8\x9c")) return 2;
  if (text.size() < 3) return 0;
  const bool found =
      (text.starts_with("\xe2\x80") && (last('\x8e', '\x8f') || last('\xa8', '\xae'))) ||
      (text.starts_with("\xe2\x81") && last('\xa6', '\xa9'));
  return found ? 3 : 0;
}

}  // namespace

void TerminalFilter::text(char c, std::string& out) {
  const auto byte = static_cast<uint8_t>(c);
  if (c == kEscape || c == kC1Lead) {
    sequence_ = c;
  } else if (byte >= 0x20 && byte != 0x7f) {
    out += c;
  } else if (c == '\n' || c == '\t' || c == '\r' || c == '\b') {
    out += c;
  } else {
    out.append({'^', static_cast<char>(byte ^ 0x40)});
  }
}

std::string TerminalFilter::operator()(std::string_view bytes) {
  constexpr size_t kLongest = 32;
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    if (sequence_.empty()) {
      text(c, out);
    } else if (sequence_[0] == kC1Lead) {
      const bool control = static_cast<uint8_t>(c) >= 0x80 && static_cast<uint8_t>(c) < 0xa0;
      if (!control) out += kC1Lead;
      sequence_.clear();
      if (control) {
        out += '?';
      } else {
        text(c, out);
      }
    } else if (sequence_.size() == 1 ? c == '[' : isColourPart(c) && sequence_.size() < kLongest) {
      sequence_ += c;
    } else if (sequence_.size() > 1 && c == 'm') {
      out.append(sequence_).append("m");
      sequence_.clear();
    } else {
      out.append(visible(sequence_));
      sequence_.clear();
      text(c, out);
    }
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto byte = static_cast<uint8_t>(text.front());
    const bool c1 = byte >= 0x80 && byte < 0xa0 && out.ends_with(kC1Lead);
    const size_t hidden = reorders(text);
    out += byte < 0x20 || byte == 0x7f || c1 || hidden > 0 ? '?' : text.front();
    text.remove_prefix(std::max<size_t>(hidden, 1));
  }
  return out;
}

Progress::Progress(bool wanted) : active_(wanted && isTerminal(STDERR_FILENO)) {}

Progress::~Progress() {
  clear();
}

void Progress::tick(std::string_view what) {
  constexpr std::string_view kFrames[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
  constexpr Millis kQuiet{500};
  const auto elapsed = std::chrono::duration_cast<Millis>(base::monotonicNow() - start_);
  if (!active_ || elapsed < kQuiet) return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, " %.1f s", static_cast<double>(elapsed.count()) / 1000);
  std::string line = "\r\x1b[K";
  line.append(kFrames[frame_++ % std::size(kFrames)]).append(" ").append(what).append(seconds);
  writeTo(STDERR_FILENO, line);
  shown_ = true;
}

void Progress::clear() {
  if (std::exchange(shown_, false)) writeTo(STDERR_FILENO, "\r\x1b[K");
}

void Progress::stop() {
  clear();
  active_ = false;
}

}  // namespace cloister::cli

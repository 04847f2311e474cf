// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/text.h"

#include <algorithm>

#include "base/json.h"

namespace cloister::api::mcp {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr char kEscape = 0x1b;
constexpr char kBell = 0x07;
constexpr size_t kLongestString = 4096;  // bound of a string in an escape sequence
constexpr size_t kLine = 200;

// The length of the UTF-8 character at the front of `bytes`; 0: not a character.
size_t characterAt(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc0 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                                       : 4;
  if (length == 0 || length > bytes.size()) return 0;
  return base::isUtf8(bytes.substr(0, length)) ? length : 0;
}

// How long the terminal's escape sequence (ECMA-48) at the front of `bytes` is.
size_t escapeAt(std::string_view bytes) {
  if (bytes.size() < 2) return 1;
  const char kind = bytes[1];
  if (kind == '[') {
    size_t at = 2;
    while (at < bytes.size() && bytes[at] >= 0x20 && bytes[at] < 0x40)
      ++at;
    return std::min(at + 1, bytes.size());
  }
  if (kind != ']' && kind != 'P' && kind != '_' && kind != '^' && kind != 'X') return 2;
  const size_t end = std::min(bytes.size(), kLongestString);
  for (size_t at = 2; at < end; ++at) {
    if (bytes[at] == kBell) return at + 1;
    if (bytes[at] == kEscape) return std::min(at + 2, bytes.size());
  }
  return 2;
}

bool isC1(std::string_view character) {
  return character.size() == 2 && character[0] == '\xc2' &&
         static_cast<uint8_t>(character[1]) < 0xa0;
}

bool isControl(char c) {
  return (static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

// The last line of a text, which a program may draw again and again.
class Redrawn {
 public:
  void restart(std::string& text) {
    const std::string drawn = text.substr(begin_);
    if (drawn.find_first_not_of(" \t") != std::string::npos) last_ = drawn;
    text.resize(begin_);
  }
  // A blank line was drawn to wipe the former line: readers want the former.
  void end(std::string& text) {
    const bool blank = text.find_first_not_of(" \t", begin_) == std::string::npos;
    if (blank && !last_.empty()) text.replace(begin_, std::string::npos, last_);
    last_.clear();
    begin_ = text.size() + 1;
  }

 private:
  size_t begin_ = 0;
  std::string last_;
};

size_t cutAt(std::string_view bytes, size_t at) {
  while (at > 0 && at < bytes.size() && (static_cast<uint8_t>(bytes[at]) & 0xc0) == 0x80)
    --at;
  return at;
}

}  // namespace

std::string plainText(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  Redrawn line;
  while (!bytes.empty()) {
    size_t length = characterAt(bytes);
    if (bytes[0] == kEscape) {
      length = escapeAt(bytes);
    } else if (bytes[0] == '\r') {
      if (bytes.size() < 2 || bytes[1] != '\n') line.restart(text);
    } else if (length == 0) {
      text += kReplacement;
      length = 1;
    } else if (bytes[0] == '\n') {
      line.end(text);
      text += '\n';
    } else if (!isControl(bytes[0]) && !isC1(bytes.substr(0, length))) {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  line.end(text);
  return text;
}

Excerpt excerpt(std::string_view bytes, uint64_t total, size_t most, std::string_view remedy) {
  if (bytes.size() <= most && total <= bytes.size()) return {plainText(bytes), true};
  // Only the head exists of lost output.
  const bool lost = total > bytes.size();
  const size_t tail = bytes.size() <= most ? 0 : most / 2;
  const size_t head = cutAt(bytes, std::min(bytes.size(), most - tail));
  const size_t rest = cutAt(bytes, bytes.size() - tail);
  std::string text = plainText(bytes.substr(0, head));
  if (rest > head || !lost) {
    text += "\n[... " + std::to_string(rest - head) + " bytes left out; " + std::string(remedy) +
            " ...]\n" + plainText(bytes.substr(rest));
  }
  if (lost) {
    text += "\n[... " + std::to_string(total - bytes.size()) +
            " bytes more were written and not kept; ask for more with max_output_bytes, or write "
            "to a file ...]\n";
  }
  return {std::move(text), false};
}

std::string lastLine(std::string_view bytes) {
  constexpr size_t kLook = 4096;
  if (bytes.size() > kLook) bytes.remove_prefix(bytes.size() - kLook);
  std::string text = plainText(bytes);
  const size_t end = text.find_last_not_of(" \t\n");
  if (end == std::string::npos) return "";
  text.resize(end + 1);
  text.erase(0, text.rfind('\n') + 1);  // npos + 1 is 0
  text.erase(0, text.find_first_not_of(" \t"));
  text.resize(cutAt(text, std::min(text.size(), kLine)));
  return text;
}

}  // namespace cloister::api::mcp

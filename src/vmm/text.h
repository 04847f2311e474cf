// SPDX-License-Identifier: Apache-2.0
// A text in memory of its own, of a fixed size. The text notices an overflow and never truncates
// silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cloister::vmm {

template <size_t kSize>
class Text {
 public:
  Text& add(std::string_view part) {
    for (const char c : part)
      put(c);
    return *this;
  }
  Text& number(uint64_t value) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (count > 0)
      put(digits[--count]);
    return *this;
  }
  // As a JSON string (RFC 8259), with its quotes.
  Text& quoted(std::string_view part) {
    constexpr char kHex[] = "0123456789abcdef";
    put('"');
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20) {
        add("\\u00");
        put(kHex[byte >> 4]);
        put(kHex[byte & 15]);
        continue;
      }
      if (c == '"' || c == '\\') put('\\');
      put(c);
    }
    put('"');
    return *this;
  }
  // Adds at most `most` characters. Unprintable characters become spaces.
  Text& shown(std::string_view part, size_t most) {
    for (size_t i = 0; i < part.size() && i < most; ++i)
      put(part[i] >= ' ' && part[i] <= '~' ? part[i] : ' ');
    return *this;
  }

  [[nodiscard]] std::string_view view() const { return {bytes_, size_}; }
  // Whether something did not fit.
  [[nodiscard]] bool full() const { return full_; }
  // Ended by a NUL.
  [[nodiscard]] const char* c_str() {
    bytes_[size_] = '\0';
    return bytes_;
  }

 private:
  void put(char c) {
    if (size_ + 1 < kSize) {
      bytes_[size_++] = c;
    } else {
      full_ = true;
    }
  }

  char bytes_[kSize];
  size_t size_ = 0;
  bool full_ = false;
};

}  // namespace cloister::vmm

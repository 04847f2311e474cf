// SPDX-License-Identifier: Apache-2.0
// Reading and writing of network byte order (RFC 1700), for protocols that others defined. A
// BigEndianReader never reads past its end. After the first fault it returns only zero and empty
// values; check ok() once at the end. Thread-compatible values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cloister::base {

class BigEndianReader {
 public:
  explicit BigEndianReader(std::string_view data) : data_(data) {}

  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u24() { return number(3); }
  uint32_t u32() { return number(4); }
  // A view of the next `size` bytes of the input.
  std::string_view take(size_t size) {
    if (size > data_.size()) return stop();
    const std::string_view taken = data_.substr(0, size);
    data_.remove_prefix(size);
    return taken;
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool empty() const { return data_.empty(); }
  // Whether all bytes were read without a fault, as required of a complete message.
  [[nodiscard]] bool done() const { return ok_ && data_.empty(); }

 private:
  uint32_t number(size_t size) {
    uint32_t value = 0;
    for (const char byte : take(size))
      value = value << 8 | static_cast<uint8_t>(byte);
    return value;
  }
  std::string_view stop() {
    ok_ = false;
    data_ = {};
    return {};
  }

  std::string_view data_;
  bool ok_ = true;
};

class BigEndianWriter {
 public:
  void u8(uint8_t value) { bytes_ += static_cast<char>(value); }
  void u16(uint16_t value) {
    u8(static_cast<uint8_t>(value >> 8));
    u8(static_cast<uint8_t>(value));
  }
  void u32(uint32_t value) {
    u16(static_cast<uint16_t>(value >> 16));
    u16(static_cast<uint16_t>(value));
  }
  void raw(std::string_view bytes) { bytes_ += bytes; }

  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace cloister::base

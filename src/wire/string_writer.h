// SPDX-License-Identifier: Apache-2.0
// StringWriter: the Writer of codec.h over a std::string that grows; for where there is a heap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cloister::wire {

class StringWriter {
 public:
  void u8(uint8_t v) { raw(&v, sizeof v); }
  void u16(uint16_t v) { raw(&v, sizeof v); }
  void u32(uint32_t v) { raw(&v, sizeof v); }
  void u64(uint64_t v) { raw(&v, sizeof v); }
  void i64(int64_t v) { raw(&v, sizeof v); }
  // u32 length, then the bytes.
  void bytes(std::string_view v) {
    u32(static_cast<uint32_t>(v.size()));
    raw(v.data(), v.size());
  }
  void raw(const void* v, size_t n) { data_.append(static_cast<const char*>(v), n); }

  [[nodiscard]] std::string take() { return std::move(data_); }

 private:
  std::string data_;
};

}  // namespace cloister::wire

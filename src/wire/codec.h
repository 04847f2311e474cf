// SPDX-License-Identifier: Apache-2.0
// Reading and writing of wire messages: little-endian integers and length-prefixed bytes, over
// caller-owned memory. No allocation, no exceptions, so that the runner can use the codec. Hostile
// input is the normal case: a Reader never reads past its end, and after the first fault returns
// only zero and empty values; check ok() once at the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace cloister::wire {

class Writer {
 public:
  Writer(char* data, size_t capacity) : data_(data), capacity_(capacity) {}

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
  void raw(const void* v, size_t n) {
    if (n > capacity_ - size_) {
      ok_ = false;
      return;
    }
    if (n != 0) std::memcpy(data_ + size_, v, n);
    size_ += n;
  }

  [[nodiscard]] bool ok() const { return ok_; }  // false once something did not fit
  [[nodiscard]] std::string_view view() const { return {data_, size_}; }

 private:
  char* data_;
  size_t capacity_;
  size_t size_ = 0;
  bool ok_ = true;
};

class Reader {
 public:
  explicit Reader(std::string_view data) : data_(data) {}

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return number<int64_t>(); }
  // A view into the input.
  std::string_view bytes() {
    const uint32_t n = u32();
    if (!ok_ || n > data_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view v = data_.substr(0, n);
    data_.remove_prefix(n);
    return v;
  }

  [[nodiscard]] bool ok() const { return ok_; }
  // True when all bytes were read without an error, as required of a complete message.
  [[nodiscard]] bool done() const { return ok_ && data_.empty(); }

 private:
  template <class T>
  T number() {
    if (!ok_ || data_.size() < sizeof(T)) {
      ok_ = false;
      return 0;
    }
    T v;
    std::memcpy(&v, data_.data(), sizeof v);
    data_.remove_prefix(sizeof v);
    return v;
  }

  std::string_view data_;
  bool ok_ = true;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");

}  // namespace cloister::wire

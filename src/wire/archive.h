// SPDX-License-Identifier: Apache-2.0
// Encoder and Decoder: two readers of one description. A model value is described once, as
// `describe(archive, value)` naming its fields in order with their bounds, and that description
// both writes and reads it, so the two cannot drift apart. The Decoder is strict: a count, length
// or number out of its bound, like bytes left over, makes the whole message invalid.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/codec.h"
#include "wire/string_writer.h"

namespace cloister::wire {

class Encoder {
 public:
  void text(const std::string& v, size_t /*max*/) { w_.bytes(v); }
  void flag(bool v) { w_.u8(v ? 1 : 0); }
  void bits(uint8_t v, uint8_t /*all*/) { w_.u8(v); }
  void number(uint32_t v, uint32_t /*max*/ = UINT32_MAX) { w_.u32(v); }
  void number(uint16_t v, uint16_t /*max*/) { w_.u16(v); }
  void number(uint64_t v) { w_.u64(v); }
  void number(int64_t v) { w_.i64(v); }
  void number(int v) { w_.i64(v); }
  void time(std::chrono::milliseconds v) { w_.i64(v.count()); }
  template <class E>
  void choice(E v, E /*first*/, E /*last*/) {
    w_.u8(static_cast<uint8_t>(v));
  }
  template <class T, class Each>
  void list(const std::vector<T>& v, size_t /*max*/, Each each) {
    w_.u32(static_cast<uint32_t>(v.size()));
    for (const T& item : v)
      each(item);
  }
  template <class T, class Each>
  void maybe(const std::optional<T>& v, Each each) {
    flag(v.has_value());
    if (v) each(*v);
  }

  std::string take() { return w_.take(); }

 private:
  StringWriter w_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : r_(bytes) {}

  void text(std::string& v, size_t max) {
    const std::string_view bytes = r_.bytes();
    require(bytes.size() <= max);
    if (ok_) v = bytes;
  }
  void flag(bool& v) {
    const uint8_t byte = r_.u8();
    require(byte <= 1);
    v = byte == 1;
  }
  void bits(uint8_t& v, uint8_t all) {
    v = r_.u8();
    require((v & ~all) == 0);
  }
  void number(uint32_t& v, uint32_t max = UINT32_MAX) {
    v = r_.u32();
    require(v <= max);
  }
  void number(uint16_t& v, uint16_t max) {
    v = r_.u16();
    require(v <= max);
  }
  void number(uint64_t& v) { v = r_.u64(); }
  void number(int64_t& v) { v = r_.i64(); }
  void number(int& v) {
    const int64_t wide = r_.i64();
    v = static_cast<int>(wide);
    require(v == wide);
  }
  // A duration is not negative and at most a year, so that sums cannot overflow.
  void time(std::chrono::milliseconds& v) {
    v = std::chrono::milliseconds(r_.i64());
    require(v.count() >= 0 && v <= std::chrono::days(366));
  }
  template <class E>
  void choice(E& v, E first, E last) {
    v = static_cast<E>(r_.u8());
    require(v >= first && v <= last);
  }
  template <class T, class Each>
  void list(std::vector<T>& v, size_t max, Each each) {
    const uint32_t count = r_.u32();
    require(count <= max);
    for (uint32_t i = 0; i < count && good(); ++i)
      each(v.emplace_back());
  }
  template <class T, class Each>
  void maybe(std::optional<T>& v, Each each) {
    bool present = false;
    v.reset();
    flag(present);
    if (present && good()) each(v.emplace());
  }

  // Marks the message invalid unless `true_of_it`.
  void require(bool true_of_it) { ok_ = ok_ && true_of_it && r_.ok(); }
  [[nodiscard]] bool good() const { return ok_ && r_.ok(); }
  // True if the whole message has been read without an error.
  [[nodiscard]] bool done() const { return ok_ && r_.done(); }

 private:
  Reader r_;
  bool ok_ = true;
};

}  // namespace cloister::wire

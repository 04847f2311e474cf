// SPDX-License-Identifier: Apache-2.0
// Chunker: cuts a long run of bytes into pieces. The content decides the places of the cuts, by a
// rolling hash (the "gear" of FastCDC, Xia et al., USENIX ATC 2016), so that an insertion or a
// removal changes the pieces around its place and no others. Holds one piece. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cloister::artifacts {

class Chunker {
 public:
  static constexpr size_t kMin = size_t{256} << 10;
  static constexpr size_t kMax = size_t{4} << 20;
  static constexpr uint64_t kMask = (uint64_t{1} << 20) - 1;  // beyond kMin, 1 MiB on average

  // Takes bytes up to the end of the piece, and says how many. When that is so, or at any other
  // time, take() gives the piece.
  size_t feed(std::string_view bytes);
  [[nodiscard]] bool whole() const { return whole_; }
  [[nodiscard]] bool empty() const { return piece_.empty(); }
  std::string take();

 private:
  std::string piece_;
  uint64_t hash_ = 0;
  bool whole_ = false;
};

}  // namespace cloister::artifacts

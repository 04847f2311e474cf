// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) in fixed memory: the runner has no library for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cloister::runner {

class Sha256 {
 public:
  static constexpr size_t kSize = 32;

  void add(std::string_view bytes);
  // Once; nothing is added afterwards.
  void finish(char (&digest)[kSize]);

 private:
  void block(const uint8_t* bytes);

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint64_t length_ = 0;
  uint8_t rest_[64];
  size_t rest_size_ = 0;
};

}  // namespace cloister::runner

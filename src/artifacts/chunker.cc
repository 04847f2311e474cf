// SPDX-License-Identifier: Apache-2.0
#include "artifacts/chunker.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cloister::artifacts {
namespace {

// A number for each byte: splitmix64 (Steele et al., OOPSLA 2014) from a fixed start, as the cuts
// must be the same for good.
constexpr std::array<uint64_t, 256> kGear = [] {
  std::array<uint64_t, 256> gear{};
  uint64_t state = 0x436c6f6973746572;
  for (uint64_t& each : gear) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    each = z ^ (z >> 31);
  }
  return gear;
}();

// The hash's upper bits have seen the last 64 bytes, the lowest only the last few.
constexpr int kUpper = 44;

}  // namespace

size_t Chunker::feed(std::string_view bytes) {
  if (whole_) return 0;
  size_t taken = 0;
  while (taken < bytes.size()) {
    const size_t size = piece_.size() + taken + 1;
    hash_ = (hash_ << 1) + kGear[static_cast<unsigned char>(bytes[taken])];
    ++taken;
    whole_ = size >= kMax || (size >= kMin && ((hash_ >> kUpper) & kMask) == 0);
    if (whole_) break;
  }
  piece_.append(bytes.substr(0, taken));
  return taken;
}

std::string Chunker::take() {
  hash_ = 0;
  whole_ = false;
  return std::exchange(piece_, {});
}

}  // namespace cloister::artifacts

// SPDX-License-Identifier: Apache-2.0
#include "runner/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cloister::runner {
namespace {

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t bigEndian(const uint8_t* p) {
  return (uint32_t{p[0]} << 24) | (uint32_t{p[1]} << 16) | (uint32_t{p[2]} << 8) | p[3];
}

}  // namespace

void Sha256::block(const uint8_t* bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = bigEndian(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15];
    const uint32_t b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  uint32_t s[8];
  std::memcpy(s, state_, sizeof s);
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = s[4];
    const uint32_t a = s[0];
    const uint32_t one = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                         ((e & s[5]) ^ (~e & s[6])) + kRound[i] + w[i];
    const uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                         ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    std::memmove(s + 1, s, 7 * sizeof *s);
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; ++i)
    state_[i] += s[i];
}

void Sha256::add(std::string_view bytes) {
  length_ += bytes.size();
  if (rest_size_ > 0) {
    const size_t n = std::min(bytes.size(), sizeof rest_ - rest_size_);
    std::memcpy(rest_ + rest_size_, bytes.data(), n);
    rest_size_ += n;
    bytes.remove_prefix(n);
    if (rest_size_ < sizeof rest_) return;
    block(rest_);
    rest_size_ = 0;
  }
  for (; bytes.size() >= sizeof rest_; bytes.remove_prefix(sizeof rest_))
    block(reinterpret_cast<const uint8_t*>(bytes.data()));
  if (bytes.empty()) return;
  std::memcpy(rest_, bytes.data(), bytes.size());
  rest_size_ = bytes.size();
}

void Sha256::finish(char (&digest)[kSize]) {
  const uint64_t bits = length_ * 8;
  char padding[72] = {'\x80'};
  const size_t zeros = (rest_size_ < 56 ? 56 : 120) - rest_size_;
  char size[8];
  for (int i = 0; i < 8; ++i)
    size[i] = static_cast<char>(bits >> (56 - 8 * i));
  add({padding, zeros});
  add({size, sizeof size});
  for (int i = 0; i < 8; ++i) {
    for (int byte = 0; byte < 4; ++byte)
      digest[4 * i + byte] = static_cast<char>(state_[i] >> (24 - 8 * byte));
  }
}

}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "base/clock.h"
#include "base/crypto.h"

namespace cloister::base {
namespace {

constexpr std::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr size_t kIdChars = 26;

// getrandom(2) cannot fail for so few bytes once the pool is ready; without randomness nothing we
// make is safe, so there is no way on.
void fillRandom(void* out, size_t n) {
  auto* at = static_cast<uint8_t*>(out);
  while (n > 0) {
    const ssize_t got = ::getrandom(at, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) std::abort();
    at += got;
    n -= static_cast<size_t>(got);
  }
}

}  // namespace

std::string newId(std::string_view prefix) {
  // 128 bits: 48 of time, 80 of randomness, in 26 characters of 5 bits (the first holds 3).
  std::array<uint8_t, 16> bits{};
  fillRandom(bits.data() + 6, 10);
  const auto millis = static_cast<uint64_t>(wallMicros() / 1000);
  for (size_t i = 0; i < 6; ++i)
    bits[i] = static_cast<uint8_t>(millis >> (40 - 8 * i));
  unsigned __int128 number = 0;
  for (const uint8_t byte : bits)
    number = number << 8 | byte;
  std::string id(prefix);
  id += '_';
  for (size_t i = kIdChars; i-- > 0;) {
    id += kAlphabet[static_cast<size_t>(number >> (5 * i)) & 31];
  }
  return id;
}

bool isId(std::string_view prefix, std::string_view text) {
  return text.size() == prefix.size() + 1 + kIdChars && text.starts_with(prefix) &&
         text[prefix.size()] == '_' &&
         std::ranges::all_of(text.substr(prefix.size() + 1),
                             [](char c) { return kAlphabet.find(c) != std::string_view::npos; });
}

std::string randomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  fillRandom(raw.data(), raw.size());
  return toHex(raw);
}

}  // namespace cloister::base

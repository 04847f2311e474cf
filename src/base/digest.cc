// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <algorithm>
#include <cstdlib>

#include <openssl/evp.h>
#include <sodium.h>

#include "base/crypto.h"

namespace cloister::base {
namespace {

// These fail here only when memory is out, and then nothing else works either.
void requireDigest(bool ok) {
  if (!ok) std::abort();
}

// Fetched once: a search for each digest takes longer than a short digest.
const EVP_MD* fetchedSha256() {
  static const EVP_MD* const digest = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  requireDigest(digest != nullptr);
  return digest;
}

// 0 to 15, or 16 for any other character.
uint8_t digitOf(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  return 16;
}

bool isHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) { return digitOf(c) < 16; });
}

uint8_t byteAt(std::string_view hex, size_t at) {
  return static_cast<uint8_t>(digitOf(hex[2 * at]) << 4 | digitOf(hex[2 * at + 1]));
}

}  // namespace

Digest sha256Bytes(std::string_view bytes) {
  Digest out{};
  requireDigest(
      EVP_Digest(bytes.data(), bytes.size(), out.data(), nullptr, fetchedSha256(), nullptr) == 1);
  return out;
}

Digest keyedDigest(const Digest& key, std::string_view bytes) {
  static const bool ready = ::sodium_init() >= 0;
  requireDigest(ready);
  Digest out{};
  requireDigest(::crypto_generichash(out.data(), out.size(),
                                     reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                                     key.data(), key.size()) == 0);
  return out;
}

std::string_view textOf(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Result<Digest> digestFromHex(std::string_view text) {
  Digest out{};
  if (!isHex(text, 2 * out.size())) {
    return fail(Code::kInvalid, "must be 64 lower-case hex digits");
  }
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = byteAt(text, i);
  return out;
}

std::string hexOf(const Digest& digest) {
  return toHex(textOf(digest));
}

std::string bigEndian64(uint64_t number) {
  std::string bytes(sizeof number, '\0');
  for (size_t i = bytes.size(); i-- > 0; number >>= 8)
    bytes[i] = static_cast<char>(number & 0xff);
  return bytes;
}

Result<uint64_t> number64FromHex(std::string_view text) {
  constexpr size_t kBytes = sizeof(uint64_t);
  if (!isHex(text, 2 * kBytes)) return fail(Code::kInvalid, "must be 16 lower-case hex digits");
  uint64_t number = 0;
  for (size_t i = 0; i < kBytes; ++i)
    number = number << 8 | byteAt(text, i);
  return number;
}

}  // namespace cloister::base

// SPDX-License-Identifier: Apache-2.0
#include "base/hmac.h"

#include <array>
#include <cstdlib>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/crypto.h"

namespace cloister::base {

std::string hmacSha256(std::string_view key, std::string_view message) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  // HMAC fails only for lack of memory; then nothing may be sent with a wrong signature.
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(),
             &size) == nullptr) {
    std::abort();
  }
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string hmacSha256Hex(std::string_view key, std::string_view message) {
  return toHex(hmacSha256(key, message));
}

}  // namespace cloister::base

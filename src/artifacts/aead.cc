// SPDX-License-Identifier: Apache-2.0
#include "artifacts/aead.h"

namespace cloister::artifacts {
namespace {

static_assert(Secret::kSize == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

const unsigned char* bytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytesOf(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

}  // namespace

std::string randomNonce() {
  std::string nonce(kNonceBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string seal(const Secret& key, std::string_view nonce, std::string_view about,
                 std::string_view plain) {
  std::string sealed(plain.size() + kTagBytes, '\0');
  crypto_aead_xchacha20poly1305_ietf_encrypt(bytesOf(sealed), nullptr, bytesOf(plain), plain.size(),
                                             bytesOf(about), about.size(), nullptr, bytesOf(nonce),
                                             key.data());
  return sealed;
}

bool unseal(const Secret& key, std::string_view nonce, std::string_view about,
            std::string_view sealed, std::string& plain) {
  if (nonce.size() != kNonceBytes || sealed.size() < kTagBytes) return false;
  plain.resize(sealed.size() - kTagBytes);
  return crypto_aead_xchacha20poly1305_ietf_decrypt(bytesOf(plain), nullptr, nullptr,
                                                    bytesOf(sealed), sealed.size(), bytesOf(about),
                                                    about.size(), bytesOf(nonce), key.data()) == 0;
}

}  // namespace cloister::artifacts

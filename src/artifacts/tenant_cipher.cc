// SPDX-License-Identifier: Apache-2.0
#include "artifacts/tenant_cipher.h"

#include <sodium.h>

namespace cloister::artifacts {
namespace {

constexpr size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;

const unsigned char* bytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytesOf(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

}  // namespace

Result<std::string> TenantCipher::encrypt(const std::string& tenant, std::string_view place,
                                          std::string_view plain) {
  std::shared_ptr<const TenantKeys> keys;
  {
    const std::lock_guard lock(mutex_);
    keys = TRY(keyring_->of(tenant));
  }
  std::string out(kNonce + plain.size() + kTag, '\0');
  randombytes_buf(out.data(), kNonce);
  crypto_aead_xchacha20poly1305_ietf_encrypt(bytesOf(out) + kNonce, nullptr, bytesOf(plain),
                                             plain.size(), bytesOf(place), place.size(), nullptr,
                                             bytesOf(out), keys->records.data());
  return out;
}

Result<std::string> TenantCipher::decrypt(const std::string& tenant, std::string_view place,
                                          std::string_view encrypted) {
  std::shared_ptr<const TenantKeys> keys;
  {
    const std::lock_guard lock(mutex_);
    keys = keyring_->find(tenant);
  }
  if (!keys) return fail(Code::kInvalid, "decrypting: the key of tenant " + tenant + " is missing");
  if (encrypted.size() >= kNonce + kTag) {
    std::string plain(encrypted.size() - kNonce - kTag, '\0');
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(
            bytesOf(plain), nullptr, nullptr, bytesOf(encrypted) + kNonce,
            encrypted.size() - kNonce, bytesOf(place), place.size(), bytesOf(encrypted),
            keys->records.data()) == 0) {
      return plain;
    }
  }
  return fail(Code::kInternal, "decrypting " + std::string(place) +
                                   ": it was damaged, moved, or encrypted under another key");
}

bool TenantCipher::has(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  return keyring_->find(tenant) != nullptr;
}

}  // namespace cloister::artifacts

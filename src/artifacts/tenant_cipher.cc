// SPDX-License-Identifier: Apache-2.0
#include "artifacts/tenant_cipher.h"

#include "artifacts/aead.h"

namespace cloister::artifacts {
Result<std::string> TenantCipher::encrypt(const std::string& tenant, std::string_view place,
                                          std::string_view plain) {
  std::shared_ptr<const TenantKeys> keys;
  {
    const std::lock_guard lock(mutex_);
    keys = TRY(keyring_->of(tenant));
  }
  const std::string nonce = randomNonce();
  return nonce + seal(keys->records, nonce, place, plain);
}

Result<std::string> TenantCipher::decrypt(const std::string& tenant, std::string_view place,
                                          std::string_view encrypted) {
  std::shared_ptr<const TenantKeys> keys;
  {
    const std::lock_guard lock(mutex_);
    keys = keyring_->find(tenant);
  }
  if (!keys) return fail(Code::kInvalid, "decrypting: the key of tenant " + tenant + " is missing");
  std::string plain;
  if (encrypted.size() >= kNonceBytes && unseal(keys->records, encrypted.substr(0, kNonceBytes),
                                                place, encrypted.substr(kNonceBytes), plain)) {
    return plain;
  }
  return fail(Code::kInternal, "decrypting " + std::string(place) +
                                   ": it was damaged, moved, or encrypted under another key");
}

bool TenantCipher::has(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  return keyring_->find(tenant) != nullptr;
}

}  // namespace cloister::artifacts

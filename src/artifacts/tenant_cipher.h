// SPDX-License-Identifier: Apache-2.0
// TenantCipher: encrypts small values that are kept whole, such as records of the ledger, each
// under a key derived from the tenant's key: a random nonce, and XChaCha20-Poly1305 over the bytes
// and their place. docs/adr/0079. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"
#include "base/result.h"

namespace cloister::artifacts {

class TenantCipher {
 public:
  explicit TenantCipher(std::unique_ptr<Keyring> keyring) : keyring_(std::move(keyring)) {}

  // Encrypts for a `place`; decrypting at another place fails. Makes a durable key for a tenant
  // without a key.
  Result<std::string> encrypt(const std::string& tenant, std::string_view place,
                              std::string_view plain);
  // kInvalid: the tenant's key is missing. kInternal: encrypt() did not make the bytes.
  Result<std::string> decrypt(const std::string& tenant, std::string_view place,
                              std::string_view encrypted);
  // Whether the tenant has a key.
  [[nodiscard]] bool has(const std::string& tenant);

 private:
  std::mutex mutex_;  // guards the keyring; keys never change
  std::unique_ptr<Keyring> keyring_;
};

}  // namespace cloister::artifacts

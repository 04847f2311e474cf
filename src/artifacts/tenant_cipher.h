// SPDX-License-Identifier: Apache-2.0
// TenantCipher: encrypts small things that are kept whole, as records of the ledger, each under a
// key derived from its tenant's: a random nonce, and XChaCha20-Poly1305 over the bytes and their
// place. docs/adr/0079. Thread-safe.
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

  // What was encrypted for one `place` decrypts at no other. A tenant without a key is given one,
  // which is durable when this returns.
  Result<std::string> encrypt(const std::string& tenant, std::string_view place,
                              std::string_view plain);
  // kInvalid: the tenant's key is missing. kInternal: the bytes are not as encrypt() gave them.
  Result<std::string> decrypt(const std::string& tenant, std::string_view place,
                              std::string_view encrypted);
  // Whether the tenant has a key.
  [[nodiscard]] bool has(const std::string& tenant);

 private:
  std::mutex mutex_;  // of the keyring; its keys stay as they are
  std::unique_ptr<Keyring> keyring_;
};

}  // namespace cloister::artifacts

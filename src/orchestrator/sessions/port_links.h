// SPDX-License-Identifier: Apache-2.0
// PortLinks: tokens with which one port of one session is reached without a key, until they expire,
// the session ends, or the credential that made them is revoked. A token is its expiry (Unix
// seconds), the id of that credential and an HMAC (artifacts/links.h), with "-" between them, so
// nothing is kept for it. The owner thread of the keyring.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::orchestrator {

class PortLinks {
 public:
  PortLinks(artifacts::Keyring& keys, store::Store& store) : keys_(keys), store_(store) {}

  // For a session of `tenant`.
  [[nodiscard]] Result<std::string> sign(const std::string& tenant, const std::string& session,
                                         uint16_t port, int64_t expires_at,
                                         const std::string& made_with) const;

  struct Verified {
    std::string made_with;
    int64_t expires_at = 0;  // Unix seconds
  };
  // kNotFound for what sign() did not make for exactly that, kUnauthorized for what has expired or
  // was made with a credential that is no longer good.
  [[nodiscard]] Result<Verified> verify(const std::string& tenant, const std::string& session,
                                        uint16_t port, std::string_view token) const;

 private:
  artifacts::Keyring& keys_;
  store::Store& store_;
};

}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
// PortLinks: tokens for access without a key to one port of one session. A token is valid until its
// expiry, the session's end, or the revocation of its maker's credential. A token consists of its
// expiry (Unix seconds), the credential's id and an HMAC (artifacts/links.h), joined by "-", so
// nothing is stored. The owner thread of the keyring.
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
  // kNotFound for a token not from sign() with exactly these arguments; kUnauthorized for an
  // expired token, or a token of an invalid credential.
  [[nodiscard]] Result<Verified> verify(const std::string& tenant, const std::string& session,
                                        uint16_t port, std::string_view token) const;

 private:
  artifacts::Keyring& keys_;
  store::Store& store_;
};

}  // namespace cloister::orchestrator

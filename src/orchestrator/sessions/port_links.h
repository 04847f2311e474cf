// SPDX-License-Identifier: Apache-2.0
// PortLinks: tokens for access without a key to one port of one session, or for writing one file. A
// token is valid until its expiry, the session's end, or the revocation of its maker's credential.
// A token consists of its expiry (Unix seconds), the credential's id and an HMAC
// (artifacts/links.h), joined by "-", so nothing is stored. The owner thread of the keyring.
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

  // In place of a port, in tokens of compatible interfaces: the session as a whole.
  static constexpr uint16_t kWholeSession = 0;

  // For a session of `tenant`.
  [[nodiscard]] Result<std::string> sign(const std::string& tenant, const std::string& session,
                                         uint16_t port, int64_t expires_at,
                                         const std::string& made_with) const;

  struct Verified {
    std::string made_with;
    int64_t expires_at = 0;  // Unix seconds
  };
  // The same for writing the file at `path`, below the workspace.
  [[nodiscard]] Result<std::string> signFile(const std::string& tenant, const std::string& session,
                                             const std::string& path, int64_t expires_at,
                                             const std::string& made_with) const;

  // kNotFound for a token not from sign() with exactly these arguments; kUnauthorized for an
  // expired token, or a token of an invalid credential.
  [[nodiscard]] Result<Verified> verify(const std::string& tenant, const std::string& session,
                                        uint16_t port, std::string_view token) const;
  // The same for a token of signFile().
  [[nodiscard]] Result<Verified> verifyFile(const std::string& tenant, const std::string& session,
                                            const std::string& path, std::string_view token) const;

 private:
  [[nodiscard]] Result<Verified> unexpired(Verified link, const std::string& what) const;

  artifacts::Keyring& keys_;
  store::Store& store_;
};

}  // namespace cloister::orchestrator

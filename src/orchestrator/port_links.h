// SPDX-License-Identifier: Apache-2.0
// PortLinks: tokens with which one port of one session is reached without a key, until they expire
// or the session ends. A token is its expiry (Unix seconds), "-" and an HMAC (artifacts/links.h),
// so nothing is kept for it. The owner thread of the keyring.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"
#include "base/result.h"

namespace cloister::orchestrator {

class PortLinks {
 public:
  explicit PortLinks(artifacts::Keyring& keys) : keys_(keys) {}

  // For a session of `tenant`.
  [[nodiscard]] Result<std::string> sign(const std::string& tenant, const std::string& session,
                                         uint16_t port, int64_t expires_at) const;
  // kNotFound for what sign() did not make for exactly that, kUnauthorized for what has expired.
  [[nodiscard]] Result<> verify(const std::string& tenant, const std::string& session,
                                uint16_t port, std::string_view token) const;

 private:
  artifacts::Keyring& keys_;
};

}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
// The public keys of a provider: a JSON Web Key Set (RFC 7517, RFC 7518 §6, RFC 8037). Only keys
// that verify signatures of accepted algorithms are taken.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "auth/jwt.h"
#include "base/result.h"

namespace cloister::auth {

// A key for a single algorithm: a token cannot use the key with another. Immutable; any threads.
class PublicKey {
 public:
  // RSA of 2048 to 8192 bits, P-256, Ed25519; else kInvalid.
  static Result<PublicKey> fromJwk(const base::json::object& jwk);
  PublicKey(PublicKey&&) noexcept;
  PublicKey& operator=(PublicKey&&) noexcept;
  PublicKey(const PublicKey&) = delete;
  PublicKey& operator=(const PublicKey&) = delete;
  ~PublicKey();

  [[nodiscard]] Algorithm algorithm() const { return algorithm_; }
  [[nodiscard]] bool verify(std::string_view text, std::string_view signature) const;

 private:
  struct State;
  PublicKey(Algorithm algorithm, std::unique_ptr<State> state);
  Algorithm algorithm_;
  std::unique_ptr<State> state_;
};

using KeySet = std::map<std::string, PublicKey, std::less<>>;  // by kid

inline constexpr size_t kMaxKeys = 100;

// The usable keys of a set by name. Skips other keys (symmetric, for encryption, weak). A name
// given twice names no key, since choosing either would be a guess. kInvalid for any other
// document.
Result<KeySet> parseKeySet(std::string_view text);

}  // namespace cloister::auth

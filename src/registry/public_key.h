// SPDX-License-Identifier: Apache-2.0
// PublicKey: a key that signatures of images are verified with, as `cosign generate-key-pair`
// writes it: ECDSA on P-256 over SHA-256 (FIPS 186-5), or Ed25519 (RFC 8032), in PEM. Immutable.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::registry {

class PublicKey {
 public:
  // kInvalid for another kind of key, and for a private key.
  static Result<PublicKey> parse(std::string_view pem);

  [[nodiscard]] bool verify(std::string_view message, std::string_view signature) const;
  // "sha256:" of the key's DER form (SubjectPublicKeyInfo, RFC 5280).
  [[nodiscard]] const std::string& id() const { return id_; }

 private:
  struct State;
  std::shared_ptr<const State> state_;
  std::string id_;
};

// The files of images.keys. kInvalid names the file.
Result<std::vector<PublicKey>> loadKeys(const std::vector<std::string>& files);

// The first key that verifies the signature; nullptr: none does.
const PublicKey* verifier(const std::vector<PublicKey>& keys, std::string_view message,
                          std::string_view signature);

}  // namespace cloister::registry

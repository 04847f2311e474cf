// SPDX-License-Identifier: Apache-2.0
// XChaCha20-Poly1305 (RFC 8439, draft-irtf-cfrg-xchacha), the cipher for all stored data. `about`
// is authenticated and not stored: data sealed for one place does not open at another. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <sodium.h>

#include "artifacts/keyring.h"

namespace cloister::artifacts {

inline constexpr size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
inline constexpr size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;

// Long enough to be taken at random, once for each text.
std::string randomNonce();

// The result is kTagBytes longer than `plain`, without the nonce, which has kNonceBytes.
std::string seal(const Secret& key, std::string_view nonce, std::string_view about,
                 std::string_view plain);

// False unless seal() returned `sealed` for the same arguments.
bool unseal(const Secret& key, std::string_view nonce, std::string_view about,
            std::string_view sealed, std::string& plain);

}  // namespace cloister::artifacts

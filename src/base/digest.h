// SPDX-License-Identifier: Apache-2.0
// Digests as bytes, for trees of digests: SHA-256 (FIPS 180-4) over OpenSSL, keyed BLAKE2b (RFC
// 7693) over libsodium. crypto.h has the digests for people.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::base {

using Digest = std::array<uint8_t, 32>;

Digest sha256Bytes(std::string_view bytes);
// BLAKE2b under a key. Without the key the digest of known bytes looks random.
Digest keyedDigest(const Digest& key, std::string_view bytes);
// The 32 bytes, for as long as the digest lives.
std::string_view textOf(const Digest& digest);
// From 64 lower-case hex digits; kInvalid for any other text.
Result<Digest> digestFromHex(std::string_view text);
std::string hexOf(const Digest& digest);

// The number as 8 bytes, the highest first, and 16 lower-case hex digits of these.
std::string bigEndian64(uint64_t number);
Result<uint64_t> number64FromHex(std::string_view text);

}  // namespace cloister::base

// SPDX-License-Identifier: Apache-2.0
// HMAC-SHA256 (RFC 2104, FIPS 198-1), over OpenSSL.
#pragma once

#include <string>
#include <string_view>

namespace cloister::base {

// 32 bytes.
std::string hmacSha256(std::string_view key, std::string_view message);
// 64 lower-case hex digits.
std::string hmacSha256Hex(std::string_view key, std::string_view message);

}  // namespace cloister::base

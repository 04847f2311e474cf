// SPDX-License-Identifier: Apache-2.0
// JSON Web Tokens (RFC 7519) in JWS Compact Serialization (RFC 7515), as hostile input: parsed,
// bounded, not yet trusted. By RFC 8725 this code refuses: an algorithm outside an allow-list, a
// key that comes with the token, and every extension.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cloister::auth {

inline constexpr size_t kMaxToken = 16'384;
inline constexpr size_t kMaxKid = 256;

// RFC 7518 §3.1, RFC 8037. There is no `none` and no HMAC: a public key is no secret.
enum class Algorithm : uint8_t { kRs256, kEs256, kEdDsa };
std::optional<Algorithm> algorithmFromName(std::string_view name);

struct Jwt {
  Algorithm algorithm{};
  std::string kid;
  base::json::object claims;
  std::string signed_text;  // header and payload as sent
  std::string signature;
};

// kInvalid for anything but a signed token of a kind we know. The message is for our log.
Result<Jwt> parseJwt(std::string_view token);

// RFC 4648 §5 without padding; strict: a single text for each value.
Result<std::string> fromBase64Url(std::string_view text);

}  // namespace cloister::auth

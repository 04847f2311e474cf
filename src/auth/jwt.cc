// SPDX-License-Identifier: Apache-2.0
#include "auth/jwt.h"

#include <algorithm>
#include <array>

#include "base/crypto.h"

namespace cloister::auth {
namespace {

namespace json = base::json;

constexpr size_t kMaxHeader = 1024;
constexpr size_t kMaxClaims = 512;
constexpr size_t kMaxSignature = 1024;  // of RSA with 8192 bits

constexpr std::array<std::string_view, 3> kAlgorithms = {"RS256", "ES256", "EdDSA"};

// Permitted members of a header. A key in the token (jwk, x5c), a location of a key (jku, x5u) or a
// critical extension (crit, b64, zip) makes the token refused.
constexpr std::array<std::string_view, 5> kHeader = {"alg", "kid", "typ", "x5t", "x5t#S256"};

std::unexpected<Error> bad(std::string_view why) {
  return fail(Code::kInvalid, "reading a token: " + std::string(why));
}

Result<json::object> object(std::string_view part, size_t max_bytes) {
  const std::string text = TRY(fromBase64Url(part));
  json::value value = TRY(
      base::parseJson(text, {.max_bytes = max_bytes, .max_depth = 8, .max_values = kMaxClaims}));
  if (!value.is_object()) return bad("a part is no object");
  return std::move(value.get_object());
}

std::string_view textOf(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string())
                                                : std::string_view();
}

// RFC 9068 §2.1 and RFC 7519 §5.1; absent with many providers. Other kinds of token (logout+jwt,
// dpop+jwt) are signed with the same keys and mean something else.
bool isKnownType(std::string_view type) {
  std::string lower(type);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return lower == "jwt" || lower == "at+jwt" || lower == "application/at+jwt";
}

Result<> readHeader(const json::object& header, Jwt& out) {
  for (const auto& [name, value] : header) {
    if (std::ranges::find(kHeader, std::string_view(name)) == kHeader.end()) {
      return bad("its header has a member that is not taken");
    }
    if (!value.is_string()) return bad("a member of its header is no text");
  }
  const auto algorithm = algorithmFromName(textOf(header, "alg"));
  if (!algorithm) return bad("its algorithm is not taken");
  out.algorithm = *algorithm;
  out.kid = textOf(header, "kid");
  if (out.kid.empty() || out.kid.size() > kMaxKid) return bad("it names no key");
  if (header.contains("typ") && !isKnownType(textOf(header, "typ"))) {
    return bad("it is another type of token");
  }
  return {};
}

}  // namespace

std::optional<Algorithm> algorithmFromName(std::string_view name) {
  const auto* found = std::ranges::find(kAlgorithms, name);
  if (found == kAlgorithms.end()) return std::nullopt;
  return static_cast<Algorithm>(found - kAlgorithms.begin());
}

Result<std::string> fromBase64Url(std::string_view text) {
  std::string standard(text);
  for (char& c : standard) {
    if (c == '+' || c == '/' || c == '=') return bad("not base64url");
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  const std::string unpadded = standard;
  standard.append((4 - standard.size() % 4) % 4, '=');
  std::string bytes = TRY(base::fromBase64(standard));
  std::string again = base::toBase64(bytes);
  while (again.ends_with('='))
    again.pop_back();
  // Unused bits at the end could have any value: a token would have many texts.
  if (again != unpadded) return bad("not base64url");
  return bytes;
}

Result<Jwt> parseJwt(std::string_view token) {
  if (token.size() > kMaxToken) return bad("too long");
  const size_t first = token.find('.');
  const size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return bad("not three parts");
  }
  Jwt out;
  const json::object header = TRY(object(token.substr(0, first), kMaxHeader));
  TRY(readHeader(header, out));
  out.claims = TRY(object(token.substr(first + 1, second - first - 1), kMaxToken));
  out.signature = TRY(fromBase64Url(token.substr(second + 1)));
  if (out.signature.empty() || out.signature.size() > kMaxSignature) return bad("its signature");
  out.signed_text = token.substr(0, second);
  return out;
}

}  // namespace cloister::auth

// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/cursors.h"

#include <algorithm>

#include "artifacts/aead.h"
#include "base/crypto.h"

namespace cloister::orchestrator {
namespace {

constexpr size_t kNumberBytes = 8;  // fixed size, so that the length reveals nothing
constexpr unsigned kByteBits = 8;
// A multiple of three, so that base64 needs no padding.
static_assert((artifacts::kNonceBytes + kNumberBytes + artifacts::kTagBytes) % 3 == 0);

std::string about(std::string_view list) {
  return "cloister cursor v1\n" + std::string(list);
}

std::string bytesOf(uint64_t number) {
  std::string bytes(kNumberBytes, '\0');
  for (size_t i = kNumberBytes; i-- > 0; number >>= kByteBits)
    bytes[i] = static_cast<char>(number & 0xff);
  return bytes;
}

uint64_t numberOf(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes)
    number = number << kByteBits | static_cast<unsigned char>(byte);
  return number;
}

}  // namespace

Result<std::string> Cursors::seal(const std::string& tenant, std::string_view list,
                                  uint64_t number) const {
  const auto keys = TRY(keys_.of(tenant));
  const std::string nonce = artifacts::randomNonce();
  std::string text =
      base::toBase64(nonce + artifacts::seal(keys->cursors, nonce, about(list), bytesOf(number)));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

Result<uint64_t> Cursors::open(const std::string& tenant, std::string_view list,
                               std::string cursor) const {
  const bool plain = cursor.find_first_of("+/") == std::string::npos;
  std::ranges::replace(cursor, '-', '+');
  std::ranges::replace(cursor, '_', '/');
  const std::string bytes = plain ? base::fromBase64(cursor).value_or("") : "";
  const auto keys = keys_.find(tenant);
  std::string number;
  if (keys && bytes.size() == artifacts::kNonceBytes + kNumberBytes + artifacts::kTagBytes) {
    const std::string_view sealed = bytes;
    if (artifacts::unseal(keys->cursors, sealed.substr(0, artifacts::kNonceBytes), about(list),
                          sealed.substr(artifacts::kNonceBytes), number)) {
      return numberOf(number);
    }
  }
  return fail(Code::kInvalid, "query parameter cursor: not one of this service", "query.cursor");
}

}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
#include "artifacts/links.h"

#include <sodium.h>

#include "base/crypto.h"

namespace cloister::artifacts {

static_assert(crypto_auth_hmacsha256_KEYBYTES == Secret::kSize);

std::string signLink(const TenantKeys& keys, const Link& link) {
  // Ids and numbers have no line breaks; the tenant, which may be anything, comes last.
  const std::string text = "cloister artifact link v1\n" + link.artifact + "\n" +
                           std::to_string(link.expires_at) + "\n" + link.tenant;
  unsigned char mac[crypto_auth_hmacsha256_BYTES];
  crypto_auth_hmacsha256(mac, reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                         keys.links.data());
  return base::toHex({reinterpret_cast<const char*>(mac), sizeof mac});
}

bool verifyLink(const TenantKeys& keys, const Link& link, std::string_view signature) {
  return base::equalSecret(signLink(keys, link), signature);
}

}  // namespace cloister::artifacts

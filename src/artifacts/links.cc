// SPDX-License-Identifier: Apache-2.0
#include "artifacts/links.h"

#include <sodium.h>

#include "base/crypto.h"

namespace cloister::artifacts {

static_assert(crypto_auth_hmacsha256_KEYBYTES == Secret::kSize);

namespace {

// Signs the fields of a link. Ids and numbers have no line breaks; the tenant, which may be any
// text, comes last.
std::string sign(const TenantKeys& keys, const std::string& text) {
  unsigned char mac[crypto_auth_hmacsha256_BYTES];
  crypto_auth_hmacsha256(mac, reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                         keys.links.data());
  return base::toHex({reinterpret_cast<const char*>(mac), sizeof mac});
}

}  // namespace

std::string signLink(const TenantKeys& keys, const Link& link) {
  return sign(keys, "cloister artifact link v2\n" + link.artifact + "\n" +
                        std::to_string(link.expires_at) + "\n" + link.made_with + "\n" +
                        link.tenant);
}

std::string signPortLink(const TenantKeys& keys, const PortLink& link) {
  return sign(keys, "cloister port link v2\n" + link.session + "\n" + std::to_string(link.port) +
                        "\n" + std::to_string(link.expires_at) + "\n" + link.made_with + "\n" +
                        link.tenant);
}

// The length tells the path, which may be any text, from the tenant.
std::string signFileLink(const TenantKeys& keys, const FileLink& link) {
  return sign(keys, "cloister file link v1\n" + link.session + "\n" +
                        std::to_string(link.expires_at) + "\n" + link.made_with + "\n" +
                        std::to_string(link.path.size()) + "\n" + link.path + "\n" + link.tenant);
}

bool verifyFileLink(const TenantKeys& keys, const FileLink& link, std::string_view signature) {
  return base::equalSecret(signFileLink(keys, link), signature);
}

bool verifyPortLink(const TenantKeys& keys, const PortLink& link, std::string_view signature) {
  return base::equalSecret(signPortLink(keys, link), signature);
}

bool verifyLink(const TenantKeys& keys, const Link& link, std::string_view signature) {
  return base::equalSecret(signLink(keys, link), signature);
}

}  // namespace cloister::artifacts

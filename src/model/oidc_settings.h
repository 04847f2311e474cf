// SPDX-License-Identifier: Apache-2.0
// The configuration of tokens of an OpenID Connect provider (`auth.oidc`); docs/CONFIGURATION.md
// explains each setting, docs/IDENTITY.md their use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cloister::model {

struct OidcSettings {
  std::string issuer;                 // "": tokens are not taken
  std::vector<std::string> audience;  // `aud` must contain an entry
  std::string resource;               // our own URL (RFC 9728); "": of `listen`
  std::vector<std::string> algorithms = {"RS256", "ES256", "EdDSA"};
  std::string client_id;               // of the web interface; "": no sign-in through the provider
  std::string client_secret_file;      // "": a public client
  std::string ca_file;                 // "" = the system's authorities
  uint32_t leeway_seconds = 30;        // between the provider's clock and ours
  uint32_t max_life_seconds = 86'400;  // of a token, from `iat` to `exp`
  uint32_t keys_seconds = 3600;        // interval of fetching the provider's keys
  uint32_t stale_seconds = 86'400;     // further use of the keys if fetching fails
  uint32_t refresh_seconds = 30;       // at least, between fetches for a key we do not have
  uint32_t fetch_timeout_ms = 5000;
  std::string tenant_claim = "tenant";
  std::string tenant;  // of tokens without the claim; "": refuse such tokens
  std::string app_claim = "client_id";
  std::string agent_claim = "agent";
  std::string user_claim = "sub";
  std::string roles_claim = "roles";
  std::vector<std::string> roles;          // "value of the claim = role"
  std::vector<std::string> default_roles;  // of tokens to which no entry of `roles` applies
  std::vector<std::string> require;        // "claim = value", "claim contains value"
};

}  // namespace cloister::model

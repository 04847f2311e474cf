// SPDX-License-Identifier: Apache-2.0
// The requirements on a token's claims, and the principal of the bearer. Pure: no I/O, no clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "auth/jwt.h"
#include "base/json.h"
#include "base/result.h"
#include "model/config.h"
#include "model/principal.h"

namespace cloister::auth {

// An attribute rule: `claim = value` or `claim contains value`.
struct Requirement {
  std::string claim;
  bool contains = false;
  std::string value;
};

// `auth.oidc` of the configuration, checked.
struct TokenRules {
  std::string issuer;
  std::vector<std::string> audience;
  std::vector<Algorithm> algorithms;
  int64_t leeway = 0;    // seconds
  int64_t max_life = 0;  // seconds
  std::string tenant_claim, app_claim, agent_claim, user_claim, roles_claim;
  std::string tenant;
  std::vector<std::pair<std::string, model::Role>> roles;  // value of the claim → role
  model::Roles default_roles;
  std::vector<Requirement> require;

  // kInvalid names the key.
  static Result<TokenRules> from(const model::OidcSettings& config);
};

// Issuer, audience and times (RFC 7519 §4.1) at `now`, in seconds since 1970. kInvalid otherwise:
// the token is worth nothing.
Result<> checkClaims(const base::json::object& claims, const TokenRules& rules, int64_t now);

// The time from which checkClaims() will refuse the claims. kInvalid: the claims give no time.
Result<int64_t> endOf(const base::json::object& claims, const TokenRules& rules);

// The principal of a valid token. kDenied, naming the claim, if the token belongs to no user here.
Result<model::Principal> principalOf(const base::json::object& claims, const TokenRules& rules);

}  // namespace cloister::auth

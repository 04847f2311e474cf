// SPDX-License-Identifier: Apache-2.0
// How a registry asks for a credential: the header WWW-Authenticate (RFC 9110, section 11.6.1), and
// the token of its token service. Hostile. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::registry {

struct Challenge {
  std::string scheme;  // in lower case: "bearer", "basic"
  std::string realm;
  std::string service;
  std::string scope;
};

// The challenges of a header, in order; kInvalid for a malformed header.
Result<std::vector<Challenge>> parseChallenges(std::string_view header);

// The token in the answer of a token service.
Result<std::string> tokenIn(std::string_view answer);

}  // namespace cloister::registry

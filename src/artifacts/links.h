// SPDX-License-Identifier: Apache-2.0
// Links: whoever has one may read one artifact until it expires, without a key. The signature is an
// HMAC-SHA256 under a key of the artifact's tenant, so it goes with that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"

namespace cloister::artifacts {

struct Link {
  std::string tenant;
  std::string artifact;    // id
  int64_t expires_at = 0;  // Unix seconds
};

// 64 hex digits.
std::string signLink(const TenantKeys& keys, const Link& link);
// Whether signLink() made `signature`; its time does not tell how much of it is right. Expiry is
// for the caller.
bool verifyLink(const TenantKeys& keys, const Link& link, std::string_view signature);

}  // namespace cloister::artifacts

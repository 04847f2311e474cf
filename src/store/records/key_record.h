// SPDX-License-Identifier: Apache-2.0
// An API key as stored in the ledger (see store.h), without its secret.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/network.h"
#include "model/principal.h"

namespace cloister::store {

struct KeyRecord {
  std::string id;      // key_…
  std::string sha256;  // of the whole secret
  std::string name;
  model::Principal principal;
  int64_t created_at = 0;
  int64_t expires_at = 0;  // 0: never
  int64_t revoked_at = 0;
  std::vector<base::Network> networks = {};  // valid only from these addresses; none: from anywhere
  int64_t last_used_at = 0;                  // by kUseGrain; 0: never
  std::string replaces = {};                 // the replaced key, "" if none
  // `expires_at` as the maker gave it, before rotations shortened it. Set by the store when
  // reading.
  int64_t given_expires_at = 0;
};

// Minimum time between two notes of a key's use.
inline constexpr int64_t kUseGrain = int64_t{15} * 60 * 1'000'000;

}  // namespace cloister::store

// SPDX-License-Identifier: Apache-2.0
// Credentials → Principal. An API key is clo_<64 hex digits> (256 random bits), shown once. Only
// its SHA-256 is kept: a key of that length cannot be guessed, so a slow hash would add nothing but
// load.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/principal.h"
#include "store/store.h"

namespace cloister::auth {

// The name of the record of admin.key; no other key may have it.
inline constexpr std::string_view kAdminKeyName = "admin.key";

struct NewKey {
  std::string secret;  // to show once
  store::KeyRecord record;
};

// A fresh key for `principal`; the caller stores the record.
NewKey makeKey(model::Principal principal, std::string name, int64_t expires_at);
// The record for a secret that exists already (admin.key).
store::KeyRecord recordFor(std::string_view secret, model::Principal principal, std::string name);

// The principal of a key that is known, not expired and not revoked; else kUnauthorized with one
// constant message. Answers are cached for a second; revocation calls forget(). Not thread-safe:
// one owner thread.
class Authenticator {
 public:
  explicit Authenticator(store::Store& store);
  Result<model::Principal> authenticate(std::string_view secret);
  void forget();

 private:
  struct Entry {
    model::Principal principal;
    int64_t until = 0;  // wall microseconds
    int64_t expires_at = 0;
  };
  store::Store& store_;
  std::map<std::string, Entry, std::less<>> cache_;  // by hash; bounded
};

}  // namespace cloister::auth

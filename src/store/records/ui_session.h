// SPDX-License-Identifier: Apache-2.0
// A person's session of the web interface, as stored in the ledger, without its cookie.
#pragma once

#include <cstdint>
#include <string>

#include "model/principal.h"

namespace cloister::store {

struct UiSession {
  std::string id;      // uis_…
  std::string sha256;  // of the cookie
  std::string person;  // a key's id, or a digest of a provider's user
  std::string issuer;  // the provider; "": signed in by a key, which then decides about the rights
  // `key_id` is the key's id, or the session's own.
  model::Principal principal;
  int64_t created_at = 0;
  int64_t used_at = 0;
  int64_t ends_at = 0;
};

// The bounds of a new session.
struct UiSessionRoom {
  uint64_t most = 10'000;    // at once, of all people
  uint64_t per_person = 64;  // a further session ends the person's longest unused one
  int64_t unused_since = 0;  // sessions last used before this time have ended
};

}  // namespace cloister::store

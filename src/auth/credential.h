// SPDX-License-Identifier: Apache-2.0
// Credential: the credential of an admitted request, for answers and links that outlast the
// request.
#pragma once

#include <cstdint>
#include <string>

#include "model/principal.h"

namespace cloister::auth {

struct Credential {
  std::string id;            // key_…, jwt_… or cert_…, as Principal::key_id; "": none was needed
  int64_t ends_at = 0;       // of a token or a certificate, wall microseconds; 0: the ledger knows
  std::string session = {};  // uis_…, of a person in a browser, which may end earlier; "": none

  auto operator<=>(const Credential&) const = default;
};

struct Identity {
  model::Principal principal;
  int64_t ends_at = 0;       // as in Credential
  std::string session = {};  // as in Credential

  [[nodiscard]] Credential credential() const { return {principal.key_id, ends_at, session}; }
};

}  // namespace cloister::auth

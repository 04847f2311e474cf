// SPDX-License-Identifier: Apache-2.0
// The configuration of the web interface (`ui`); docs/CONFIGURATION.md explains each setting,
// docs/adr/0117 the sign-in.
#pragma once

#include <cstdint>
#include <string>

namespace cloister::model {

struct UiSettings {
  std::string base_path;              // path of the service at a reverse proxy; "": none
  uint32_t session_seconds = 28'800;  // from signing in
  uint32_t idle_seconds = 3600;       // without a request
  uint32_t sessions = 10'000;         // at once, of all people
};

}  // namespace cloister::model

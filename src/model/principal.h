// SPDX-License-Identifier: Apache-2.0
// Principal: on whose behalf a request is made. Every record, permit and audit row carries one.
#pragma once

#include <string>

#include "model/roles.h"

namespace cloister::model {

struct Principal {
  std::string tenant;  // never empty
  std::string app;
  std::string agent;
  std::string user;
  Roles roles = Role::kAgent;
  std::string key_id;  // the credential, for the audit log
  std::string request =
      {};  // what it asks with (X-Request-Id), for the service's log; not recorded

  [[nodiscard]] bool isAdmin() const { return roles.has(Role::kAdmin); }
  [[nodiscard]] bool may(Permission permission) const { return model::may(roles, permission); }
};

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
// Principal: on whose behalf a request is made. Every record, permit and audit row carries one.
#pragma once

#include <compare>
#include <string>

namespace cloister::model {

// What a credential may do. Wider roles come with the identity work; these two are real now.
enum class Role {
  kAgent,  // run, and see its own tenant's executions
  kAdmin,  // everything, every tenant
};

struct Principal {
  std::string tenant;  // never empty
  std::string app;
  std::string agent;
  std::string user;
  Role role = Role::kAgent;
  std::string key_id;  // the credential, for the audit log

  [[nodiscard]] bool isAdmin() const { return role == Role::kAdmin; }
};

}  // namespace cloister::model

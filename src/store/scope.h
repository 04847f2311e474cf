// SPDX-License-Identifier: Apache-2.0
// Scope: the rows of the ledger visible to a caller. Every query needs a scope. A row belongs to a
// tenant and to the agent that made the row.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "model/principal.h"

namespace cloister::store {

class Scope {
 public:
  // The scope of `principal` (model::Principal::sees()).
  static Scope of(const model::Principal& principal) {
    Scope scope;
    if (!principal.isAdmin()) scope.tenant_ = principal.tenant;
    if (principal.seesItsOwn()) scope.agent_ = principal.agent;
    return scope;
  }
  // A whole tenant: for the service's own work.
  static Scope ofTenant(std::string tenant) {
    Scope scope;
    scope.tenant_ = std::move(tenant);
    return scope;
  }
  // For our own start-up, retention and credentials only.
  static Scope allTenants() { return {}; }

  // Absent: every tenant; every agent. Keys, the audit log and quotas are filtered by the tenant
  // alone: only roles with a view of the whole tenant may read these.
  [[nodiscard]] const std::optional<std::string>& tenant() const { return tenant_; }
  [[nodiscard]] const std::optional<std::string>& agent() const { return agent_; }
  [[nodiscard]] bool has(const std::string& tenant, const std::string& agent) const {
    return (!tenant_ || *tenant_ == tenant) && (!agent_ || *agent_ == agent);
  }

 private:
  Scope() = default;
  std::optional<std::string> tenant_;
  std::optional<std::string> agent_;
};

}  // namespace cloister::store

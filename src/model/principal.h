// SPDX-License-Identifier: Apache-2.0
// Principal: the party on whose behalf a request is made. Every record, permit and audit row
// carries a principal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/roles.h"
#include "model/trace_context.h"

namespace cloister::model {

// Names that begin so are the service's own: no credential is for such a tenant or agent.
inline constexpr std::string_view kOwnNames = "cloister.";
// The tenant of what the service itself runs to install dependencies, for the tenant named by
// Principal::app. No client but an administrator sees or reaches it.
inline constexpr std::string_view kInstallerTenant = "cloister.deps";

struct Principal {
  std::string tenant;  // never empty
  std::string app;
  std::string agent;
  std::string user;
  Roles roles = Role::kAgent;
  std::string key_id;        // the credential, for the audit log
  std::string request = {};  // X-Request-Id of the request, for the service's log; not recorded
  TraceContext trace = {};   // of the request; not recorded
  int64_t ends_at = 0;       // of `key_id`, as in auth::Credential; not recorded

  // Whether only the service itself can be this.
  [[nodiscard]] bool isOwn() const {
    return tenant.starts_with(kOwnNames) || agent.starts_with(kOwnNames);
  }
  [[nodiscard]] bool isAdmin() const { return roles.has(Role::kAdmin); }
  [[nodiscard]] bool may(Permission permission) const { return model::may(roles, permission); }

  // Whether the principal may see, or may change or end, objects made by `agent` of `tenant` (an
  // execution, a session, an artifact …): its own objects; with a role above agent, its whole
  // tenant's; an administrator, all tenants'. A viewer only sees. Credentials without an agent are
  // a single agent, "". Permissions are checked in addition.
  [[nodiscard]] bool sees(std::string_view of_tenant, std::string_view of_agent) const {
    return isAdmin() || (tenant == of_tenant && (agent == of_agent || roles.hasAny(kSeeAll)));
  }
  [[nodiscard]] bool reaches(std::string_view of_tenant, std::string_view of_agent) const {
    return isAdmin() || (tenant == of_tenant && (agent == of_agent || roles.hasAny(kReachAll)));
  }
  [[nodiscard]] bool sees(const Principal& maker) const { return sees(maker.tenant, maker.agent); }
  [[nodiscard]] bool reaches(const Principal& maker) const {
    return reaches(maker.tenant, maker.agent);
  }
  // Whether the rules of the same agent apply to both.
  [[nodiscard]] bool sameAgent(const Principal& other) const {
    return tenant == other.tenant && agent == other.agent;
  }
  // Whether the principal sees only its own agent's objects.
  [[nodiscard]] bool seesItsOwn() const { return !roles.hasAny(kSeeAll); }

 private:
  static constexpr Roles kReachAll =
      Roles(Role::kOperator).with(Role::kApprover).with(Role::kTenantAdmin).with(Role::kAdmin);
  static constexpr Roles kSeeAll = kReachAll.with(Role::kViewer);
};

}  // namespace cloister::model

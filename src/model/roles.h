// SPDX-License-Identifier: Apache-2.0
// Roles and permissions: the one table of rights. A route names its permission (api/router.h), a
// credential has roles, and the table in roles.cc lists the roles with each permission.
// docs/IDENTITY.md shows the table; a test compares the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::model {

enum class Role : uint8_t {
  kViewer,       // sees its tenant's objects
  kAgent,        // and runs code
  kOperator,     // stops programs, and sees the state of the service
  kApprover,     // sees its whole tenant, including the audit log, but starts nothing
  kTenantAdmin,  // keys and the audit log of its tenant
  kAdmin,        // everything, every tenant
  kMetrics,      // the service's metrics, and how its node fares
};
inline constexpr Role kAllRoles[] = {Role::kViewer,   Role::kAgent,       Role::kOperator,
                                     Role::kApprover, Role::kTenantAdmin, Role::kAdmin,
                                     Role::kMetrics};

std::string_view roleName(Role role);
std::optional<Role> roleFromName(std::string_view name);

// A set of roles; a role converts to a set.
class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(Role role) : bits_(bit(role)) {}  // NOLINT(google-explicit-constructor)

  constexpr void add(Role role) { bits_ |= bit(role); }
  [[nodiscard]] constexpr Roles with(Roles more) const {
    Roles both = *this;
    both.bits_ |= more.bits_;
    return both;
  }
  [[nodiscard]] constexpr bool has(Role role) const { return (bits_ & bit(role)) != 0; }
  [[nodiscard]] constexpr bool hasAny(Roles other) const { return (bits_ & other.bits_) != 0; }
  [[nodiscard]] constexpr bool hasAll(Roles other) const {
    return (bits_ & other.bits_) == other.bits_;
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  bool operator==(const Roles&) const = default;

 private:
  static constexpr uint8_t bit(Role role) {
    return static_cast<uint8_t>(1U << static_cast<uint8_t>(role));
  }
  uint8_t bits_ = 0;
};

enum class Permission : uint8_t {
  kServiceRead,
  kExecutionRead,
  kExecutionRun,
  kExecutionStop,
  kSessionRead,
  kSessionUse,
  kSessionEnd,
  kFileRead,
  kFileWrite,
  kArtifactRead,
  kArtifactWrite,
  kArtifactDelete,
  kTenantErase,
  kKeyRead,
  kKeyManage,
  kAuditRead,
  kAuditVerify,
  kAuditRedact,
  kPoolRead,
  kEscalationRead,
  kEscalationRequest,
  kEscalationDecide,
  kEscalationManage,
  kMetricsRead,
  kAgentRead,
  kAgentManage,
  kPolicyRead,
  kPolicyApply,
  kQuotaRead,
  kQuotaManage,
  kQuotaGrant,
  kSecretRead,
  kSecretManage,
};

// A row of the table.
struct Grant {
  Permission permission;
  std::string_view name;  // "execution.run"
  Roles roles;            // roles with the permission
  std::string_view what;  // description of the permitted operation
};
// All permissions, in the order of Permission.
const std::vector<Grant>& grants();
std::string_view permissionName(Permission permission);

bool may(Roles roles, Permission permission);
// The roles that a principal with `roles` may give to a key.
Roles mayGive(Roles roles);
// kInvalid, naming the roles, if a credential must not have the roles together: running code,
// approving and issuing keys are separate, and an administrator needs no other role.
Result<> goTogether(Roles roles);

// "agent, viewer": in the order of the enumeration.
std::string toText(Roles roles);
std::vector<std::string_view> names(Roles roles);
// Parses role names. kInvalid for an unknown name, listing all names.
Result<Roles> rolesFromNames(const std::vector<std::string>& names);

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
#include "model/roles.h"

#include <algorithm>
#include <array>

namespace cloister::model {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"viewer",       "agent", "operator", "approver",
                                                    "tenant-admin", "admin", "metrics"};

constexpr Roles of(std::initializer_list<Role> roles) {
  Roles set;
  for (const Role role : roles)
    set.add(role);
  return set;
}

using enum Role;
// All roles concerned with running programs.
constexpr Roles kEveryone = of({kViewer, kAgent, kOperator, kApprover, kTenantAdmin, kAdmin});
// Files may have secrets, which operators need not read.
constexpr Roles kReaders = of({kViewer, kAgent, kApprover, kTenantAdmin, kAdmin});
constexpr Roles kRunners = of({kAgent, kAdmin});
constexpr Roles kStoppers = of({kAgent, kOperator, kTenantAdmin, kAdmin});
constexpr Roles kManagers = of({kTenantAdmin, kAdmin});
constexpr Roles kWatchers = of({kOperator, kAdmin});

const std::vector<Grant> kGrants = {
    {Permission::kServiceRead, "service.read", kEveryone.with(kMetrics),
     "see the node, the languages, oneself"},
    {Permission::kExecutionRead, "execution.read", kEveryone, "see executions and their output"},
    {Permission::kExecutionRun, "execution.run", kRunners, "run code, and write to what runs"},
    {Permission::kExecutionStop, "execution.stop", kStoppers, "cancel executions"},
    {Permission::kSessionRead, "session.read", kEveryone, "see sessions and their events"},
    {Permission::kSessionUse, "session.use", kRunners, "make, renew and use sessions"},
    {Permission::kSessionEnd, "session.end", kStoppers, "end sessions"},
    {Permission::kFileRead, "file.read", kReaders, "read the files and the memory of sessions"},
    {Permission::kFileWrite, "file.write", kRunners, "change the files and the memory of sessions"},
    {Permission::kArtifactRead, "artifact.read", kReaders,
     "read artifacts, and make links to them"},
    {Permission::kArtifactWrite, "artifact.write", kRunners, "upload artifacts"},
    {Permission::kArtifactDelete, "artifact.delete", of({kAgent, kTenantAdmin, kAdmin}),
     "delete artifacts"},
    {Permission::kTenantErase, "tenant.erase", kAdmin, "delete all artifacts of a tenant"},
    {Permission::kKeyRead, "key.read", kManagers, "see API keys"},
    {Permission::kKeyManage, "key.manage", kManagers, "make, rotate and revoke API keys"},
    {Permission::kAuditRead, "audit.read", of({kApprover, kTenantAdmin, kAdmin}),
     "read and export the audit log"},
    {Permission::kAuditVerify, "audit.verify", kAdmin, "verify the whole audit log"},
    {Permission::kAuditRedact, "audit.redact", kAdmin, "forget free text of the audit log"},
    {Permission::kPoolRead, "pool.read", kWatchers, "see what the node keeps ready"},
    {Permission::kEscalationRead, "escalation.read", kEveryone, "see escalations"},
    {Permission::kEscalationRequest, "escalation.request", kRunners, "ask for an escalation"},
    {Permission::kEscalationDecide, "escalation.decide",
     of({kOperator, kApprover, kTenantAdmin, kAdmin}),
     "approve and deny the escalations that name one of one's roles"},
    {Permission::kEscalationManage, "escalation.manage", kManagers,
     "set what an agent's escalations meet"},
    {Permission::kMetricsRead, "metrics.read", kWatchers.with(kMetrics),
     "read the metrics of the whole service"},
    {Permission::kAgentRead, "agent.read", kEveryone,
     "see agents' sandboxes and violations, and ask what they may do"},
    {Permission::kAgentManage, "agent.manage", kManagers, "make and change agents' sandboxes"},
    {Permission::kPolicyRead, "policy.read", of({kOperator, kApprover, kTenantAdmin, kAdmin}),
     "ask what the policy decides, and try documents of one's own"},
    {Permission::kPolicyApply, "policy.apply", kAdmin,
     "read the policy documents, compare them, and put one in force"},
    {Permission::kQuotaRead, "quota.read", kEveryone, "see quotas, and what of them is used"},
    {Permission::kQuotaManage, "quota.manage", kManagers, "set the quotas of agents"},
    {Permission::kQuotaGrant, "quota.grant", kAdmin, "set the quotas of tenants"},
    {Permission::kSecretRead, "secret.read", of({kApprover, kTenantAdmin, kAdmin}),
     "see the names and versions of secrets, never their values"},
    {Permission::kSecretManage, "secret.manage", kManagers, "set and delete secrets"},
};

const Grant& grantOf(Permission permission) {
  return kGrants[static_cast<size_t>(permission)];
}

}  // namespace

std::string_view roleName(Role role) {
  return kNames[static_cast<size_t>(role)];
}

std::optional<Role> roleFromName(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Role>(found - kNames.begin());
}

const std::vector<Grant>& grants() {
  return kGrants;
}

std::string_view permissionName(Permission permission) {
  return grantOf(permission).name;
}

bool may(Roles roles, Permission permission) {
  return roles.hasAny(grantOf(permission).roles);
}

Roles mayGive(Roles roles) {
  if (roles.has(kAdmin)) return kEveryone.with(kMetrics);
  // An operator, like a reader of the metrics, sees the whole service, which a tenant's
  // administrator cannot grant.
  if (roles.has(kTenantAdmin)) return of({kViewer, kAgent, kApprover, kTenantAdmin});
  return {};
}

Result<> goTogether(Roles roles) {
  if (roles.empty()) return fail(Code::kInvalid, "roles: at least one is needed", "roles");
  if (roles.has(kAdmin) && roles != Roles(kAdmin)) {
    return fail(Code::kInvalid, "roles: admin stands alone, it has every permission", "roles");
  }
  Roles duties;
  for (const Role duty : {kAgent, kApprover, kTenantAdmin}) {
    if (roles.has(duty)) duties.add(duty);
  }
  if (names(duties).size() > 1) {
    return fail(Code::kInvalid,
                "roles: " + toText(duties) + " do not go together; give each a key of its own",
                "roles");
  }
  return {};
}

std::vector<std::string_view> names(Roles roles) {
  std::vector<std::string_view> out;
  for (const Role role : kAllRoles) {
    if (roles.has(role)) out.push_back(roleName(role));
  }
  return out;
}

std::string toText(Roles roles) {
  std::string text;
  for (const std::string_view name : names(roles))
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

Result<Roles> rolesFromNames(const std::vector<std::string>& names) {
  Roles roles;
  for (const std::string& name : names) {
    const auto role = roleFromName(name);
    if (!role) {
      return fail(
          Code::kInvalid,
          "roles: must be of viewer, agent, operator, approver, tenant-admin, admin, metrics",
          "roles");
    }
    roles.add(*role);
  }
  return roles;
}

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
#include "model/roles.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "model/principal.h"

namespace cloister::model {
namespace {

using testing::HasSubstr;

TEST(Roles, AreNamedOneWay) {
  for (const Role role : kAllRoles)
    EXPECT_EQ(roleFromName(roleName(role)), role);
  EXPECT_FALSE(roleFromName("Admin"));
  EXPECT_FALSE(roleFromName(""));
  const auto roles = rolesFromNames({"operator", "viewer"});
  ASSERT_TRUE(roles);
  EXPECT_EQ(toText(*roles), "viewer, operator");
  EXPECT_EQ(rolesFromNames({"root"}).error().field, "roles");
}

TEST(Permissions, AreInTheOrderOfTheirNumbers) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < grants().size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(grants()[i].permission), i);
    EXPECT_TRUE(names.insert(grants()[i].name).second) << grants()[i].name;
    EXPECT_TRUE(may(Role::kAdmin, grants()[i].permission)) << grants()[i].name;
    EXPECT_FALSE(may({}, grants()[i].permission)) << grants()[i].name;
  }
  EXPECT_EQ(grants().size(), static_cast<size_t>(Permission::kSecretManage) + 1);
}

TEST(Permissions, DutiesAreApart) {
  const struct {
    Role role;
    Permission permission;
    bool may;
  } rows[] = {
      {Role::kViewer, Permission::kExecutionRead, true},
      {Role::kViewer, Permission::kExecutionRun, false},
      {Role::kViewer, Permission::kExecutionStop, false},
      {Role::kViewer, Permission::kAuditRead, false},
      {Role::kAgent, Permission::kExecutionRun, true},
      {Role::kAgent, Permission::kKeyRead, false},
      {Role::kOperator, Permission::kExecutionStop, true},
      {Role::kOperator, Permission::kExecutionRun, false},
      {Role::kOperator, Permission::kFileRead, false},
      {Role::kOperator, Permission::kMetricsRead, true},
      {Role::kMetrics, Permission::kMetricsRead, true},
      {Role::kMetrics, Permission::kServiceRead, true},
      {Role::kMetrics, Permission::kExecutionRead, false},
      {Role::kViewer, Permission::kMetricsRead, false},
      {Role::kTenantAdmin, Permission::kMetricsRead, false},
      {Role::kApprover, Permission::kAuditRead, true},
      {Role::kApprover, Permission::kExecutionRun, false},
      {Role::kTenantAdmin, Permission::kKeyManage, true},
      {Role::kTenantAdmin, Permission::kExecutionRun, false},
      {Role::kTenantAdmin, Permission::kTenantErase, false},
      {Role::kTenantAdmin, Permission::kAuditVerify, false},
      {Role::kTenantAdmin, Permission::kPoolRead, false},
  };
  for (const auto& row : rows)
    EXPECT_EQ(may(row.role, row.permission), row.may)
        << roleName(row.role) << " " << permissionName(row.permission);
}

TEST(Roles, SomeDoNotGoTogether) {
  const auto problem = [](const std::vector<std::string>& names) {
    const auto fits = goTogether(rolesFromNames(names).value());
    return fits ? "" : fits.error().message;
  };
  EXPECT_EQ(problem({"viewer", "operator", "agent"}), "");
  EXPECT_EQ(problem({"admin"}), "");
  EXPECT_THAT(problem({}), HasSubstr("at least one"));
  EXPECT_THAT(problem({"agent", "approver"}), HasSubstr("agent, approver do not go together"));
  EXPECT_THAT(problem({"agent", "tenant-admin"}), HasSubstr("do not go together"));
  EXPECT_THAT(problem({"approver", "tenant-admin"}), HasSubstr("do not go together"));
  EXPECT_THAT(problem({"admin", "viewer"}), HasSubstr("stands alone"));
}

TEST(Roles, NobodyGivesMoreThanTheyHave) {
  EXPECT_TRUE(mayGive(Role::kAdmin).hasAll(Role::kAdmin));
  EXPECT_FALSE(mayGive(Role::kTenantAdmin).hasAny(Roles(Role::kAdmin).with(Role::kOperator)));
  EXPECT_TRUE(mayGive(Role::kTenantAdmin).has(Role::kAgent));
  EXPECT_TRUE(mayGive(Role::kAdmin).has(Role::kMetrics));
  EXPECT_FALSE(mayGive(Role::kTenantAdmin).has(Role::kMetrics));
  for (const Role role :
       {Role::kViewer, Role::kAgent, Role::kOperator, Role::kApprover, Role::kMetrics})
    EXPECT_TRUE(mayGive(role).empty()) << roleName(role);
}

// Roles that may see, and change, objects of another agent of the tenant.
TEST(Principals, ReachTheirOwnAgentsThingsUnlessARoleReachesFurther) {
  using enum Role;
  struct Row {
    Roles roles;
    bool sees;
    bool reaches;
  };
  for (const Row& row :
       {Row{{}, false, false}, Row{kAgent, false, false}, Row{kViewer, true, false},
        Row{Roles(kAgent).with(kViewer), true, false}, Row{kOperator, true, true},
        Row{Roles(kAgent).with(kOperator), true, true}, Row{kApprover, true, true},
        Row{kTenantAdmin, true, true}, Row{kAdmin, true, true}}) {
    Principal who{
        .tenant = "acme", .app = "", .agent = "bob", .user = "", .roles = row.roles, .key_id = ""};
    const std::string roles = toText(row.roles);
    EXPECT_TRUE(who.sees("acme", "bob") && who.reaches("acme", "bob")) << roles;
    EXPECT_EQ(who.sees("acme", "alice"), row.sees) << roles;
    EXPECT_EQ(who.reaches("acme", "alice"), row.reaches) << roles;
    EXPECT_EQ(who.sees("acme", ""), row.sees) << roles;
    EXPECT_EQ(who.reaches("rival", "bob"), who.isAdmin()) << roles;
    EXPECT_EQ(who.sees("rival", "bob"), who.isAdmin()) << roles;
    who.agent.clear();
    EXPECT_TRUE(who.reaches("acme", "")) << roles;
    EXPECT_EQ(who.sees("acme", "alice"), row.sees) << roles;
  }
}

// docs/IDENTITY.md must have the same table as the code.
TEST(Permissions, AreDocumented) {
  const std::string text =
      base::readFile(std::string(CLOISTER_SOURCE_DIR) + "/docs/IDENTITY.md").value();
  for (const Grant& grant : grants()) {
    std::string row = "| `" + std::string(grant.name) + "` | " + std::string(grant.what) + " |";
    for (const Role role : kAllRoles)
      row += grant.roles.has(role) ? " ✓ |" : "  |";
    EXPECT_THAT(text, HasSubstr(row));
  }
}

}  // namespace
}  // namespace cloister::model

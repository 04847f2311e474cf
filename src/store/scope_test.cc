// SPDX-License-Identifier: Apache-2.0
// Code that must not compile: a query about tenants' rows without a scope.
#include <concepts>
#include <iterator>

#include <gtest/gtest.h>

#include "store/rows/artifacts.h"
#include "store/rows/keys.h"
#include "store/store.h"

namespace cloister::store {
namespace {

// A scope comes from a principal, or is explicitly a whole tenant's, or every tenant's.
static_assert(!std::default_initializable<Scope>);
static_assert(!std::constructible_from<Scope, std::string>);
static_assert(!std::constructible_from<Scope, const char*>);
static_assert(!std::constructible_from<Scope, std::optional<std::string>>);
static_assert(!std::constructible_from<Scope, model::Principal>);
static_assert(!std::convertible_to<model::Principal, Scope>);

template <class Id>
concept ById = requires(Store& store, Id id) { store.get(id); } ||
               requires(Store& store, Id id) { store.session(id); } ||
               requires(Store& store, Id id) { store.artifact(id); } ||
               requires(Store& store, Id id) { store.key(id); } ||
               requires(Id id) { writing(revokeKey, id, {}, {}); } ||
               requires(Id id) { writing(removeArtifact, id, {}, {}); };
static_assert(!ById<std::string>);

template <class S>
concept Listing =
    requires(S& store) { store.keys(); } || requires(S& store) { store.list(ListQuery{}); } ||
    requires(S& store) { store.sessions(SessionQuery{}); } ||
    requires(S& store) { store.artifacts(ArtifactQuery{}); } ||
    requires(S& store) { store.audit(uint64_t{0}, uint32_t{1}); };
static_assert(!Listing<Store>);

// A tenant's name is no scope: a name read in a request grants no query.
template <class Tenant>
concept ByName = requires(Store& store, Tenant tenant) { store.list(tenant, ListQuery{}); } ||
                 requires(Store& store, Tenant tenant) { store.get(tenant, std::string()); };
static_assert(!ByName<std::string>);
static_assert(!ByName<model::Principal>);
// Proves that the checks above fail because of the arguments, not because of a spelling.
static_assert(ByName<Scope>);
static_assert(ById<Scope>);

TEST(Scope, IsTheTenantsOwnUnlessItIsAnAdministrators) {
  model::Principal who;
  who.tenant = "acme";
  for (const model::Role role : model::kAllRoles) {
    who.roles = role;
    const Scope scope = Scope::of(who);
    if (role == model::Role::kAdmin) {
      EXPECT_FALSE(scope.tenant());
    } else {
      EXPECT_EQ(scope.tenant(), "acme") << model::roleName(role);
    }
  }
  EXPECT_FALSE(Scope::allTenants().tenant());
}

TEST(Scope, IsTheAgentsOwnUnlessARoleSeesMore) {
  using enum model::Role;
  model::Principal who{.tenant = "acme", .app = "", .agent = "bob", .user = "", .key_id = ""};
  for (const model::Roles alone : {model::Roles(), model::Roles(kAgent)}) {
    who.roles = alone;
    EXPECT_EQ(Scope::of(who).agent(), "bob") << model::toText(alone);
    EXPECT_TRUE(Scope::of(who).has("acme", "bob"));
    EXPECT_FALSE(Scope::of(who).has("acme", "alice"));
    EXPECT_FALSE(Scope::of(who).has("rival", "bob"));
  }
  for (const model::Role above : {kViewer, kOperator, kApprover, kTenantAdmin, kAdmin}) {
    who.roles = model::Roles(above).with(above == kAdmin ? model::Roles() : model::Roles(kAgent));
    EXPECT_FALSE(Scope::of(who).agent()) << model::roleName(above);
    EXPECT_TRUE(Scope::of(who).has("acme", "alice"));
  }
  who.roles = kAgent;
  who.agent.clear();
  EXPECT_EQ(Scope::of(who).agent(), "") << "no agent is an agent of its own";
  EXPECT_FALSE(Scope::ofTenant("acme").agent());
  EXPECT_EQ(Scope::ofTenant("acme").tenant(), "acme");
}

// The ledger and the checks in memory agree for every set of roles.
TEST(Scope, IsWhatThePrincipalSees) {
  model::Principal who{.tenant = "acme", .app = "", .agent = "", .user = "", .key_id = ""};
  constexpr unsigned kSets = 1U << std::size(model::kAllRoles);
  for (unsigned set = 0; set < kSets; ++set) {
    who.roles = {};
    for (const model::Role role : model::kAllRoles) {
      if ((set >> static_cast<unsigned>(role) & 1U) != 0) who.roles.add(role);
    }
    for (const char* own : {"", "bob"}) {
      who.agent = own;
      for (const char* tenant : {"acme", "rival"}) {
        for (const char* agent : {"", "bob", "alice"}) {
          EXPECT_EQ(Scope::of(who).has(tenant, agent), who.sees(tenant, agent))
              << model::toText(who.roles) << " of agent " << own << ": " << tenant << "/" << agent;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cloister::store

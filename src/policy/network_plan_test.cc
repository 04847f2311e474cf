// SPDX-License-Identifier: Apache-2.0
#include "policy/network_plan.h"

#include <gmock/gmock.h>

#include "base/crypto.h"
#include "policy/policy_testing.h"  // needs CLOISTER_SOURCE_DIR

namespace cloister::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::policyOf;

model::NetworkEntry entry(std::string_view json) {
  return model::readNetworkEntry(base::parseJson(json).value(), "entry", true).value();
}

class NetworkPlanTest : public ::testing::Test {
 protected:
  // A rule of version 2 with these members.
  void rule(const std::string& members) {
    policy_ =
        policyOf("  - {name: net, why: a test, effect: allow, tier: Auto, " + members + "}\n");
  }
  // A request for `network_policy`.
  void ask(std::string_view network) {
    supposed_ = testing::asking().suppose(R"({"request":{"language":"python","code":"1",)"
                                          R"("network_policy":)" +
                                          std::string(network) + "}}");
    supposed_->principal.agent = "coder";
  }
  [[nodiscard]] Question question() const {
    Question asked = supposed_->question();
    asked.permit_id = "permit_1";
    asked.agent_network = agent_ ? &*agent_ : nullptr;
    asked.internal = &internal_;
    asked.now = 1000;
    return asked;
  }
  [[nodiscard]] Denied refusal() const {
    return refusalOf(decide(policy_, question())).value_or(Denied{});
  }
  // The destinations of the plan, as texts; the reason of a denial.
  [[nodiscard]] std::vector<std::string> destinations() const {
    const Decision decision = decide(policy_, question());
    if (const auto denied = refusalOf(decision)) return {denied->reason};
    std::vector<std::string> texts;
    for (const model::PlanRule& rule : std::get<model::Permit>(decision).network().value().rules)
      texts.push_back(destinationText(rule.entry));
    return texts;
  }
  [[nodiscard]] model::NetworkPlan plan() const {
    return std::get<model::Permit>(decide(policy_, question())).network().value();
  }
  void approve(std::string_view json, int64_t expires_at = 2000) {
    if (!agent_) agent_.emplace();
    agent_->approved.push_back({entry(json), "ESC-2026-001", expires_at});
  }

  Policy policy_;
  std::optional<Supposed> supposed_;
  std::optional<AgentNetwork> agent_;
  model::InternalDestinations internal_;
};

TEST_F(NetworkPlanTest, ThePermitHasTheDigestOfThePlan) {
  rule("network: [\"api.example.com:443\"]");
  ask(R"({"tier":"restricted","on_denied":"escalate"})");
  agent_ = AgentNetwork{.access = "allowed", .requests_per_minute = 7, .approved = {}};
  const Decision decision = decide(policy_, question());
  const auto& permit = std::get<model::Permit>(decision);
  ASSERT_TRUE(permit.network());
  EXPECT_EQ(permit.fields().network_tier, "restricted");
  EXPECT_EQ(permit.fields().network_plan_sha256,
            base::sha256Hex(model::encodePlan(*permit.network())));
  EXPECT_THAT(permit.fields().network_ports, ElementsAre(443));
  const model::NetworkPlan made = plan();
  EXPECT_EQ(made.permit, "permit_1");
  EXPECT_EQ(made.generation, 1U);
  EXPECT_EQ(made.tier, "restricted");
  EXPECT_EQ(made.tenant, "acme");
  EXPECT_EQ(made.agent, "coder");
  EXPECT_EQ(made.policy_id, policy_.id);
  EXPECT_EQ(made.on_denied, model::OnDenied::kEscalate);
  EXPECT_EQ(made.requests_per_minute, 7U);
  EXPECT_THAT(made.internal_networks, IsEmpty());
  ASSERT_EQ(made.rules.size(), 1U);
  EXPECT_EQ(made.rules[0].rule, "net");
  EXPECT_FALSE(made.rules[0].anyone);
  EXPECT_FALSE(made.rules[0].internal);
  EXPECT_EQ(model::decodePlan(model::encodePlan(made)), made);
}

TEST_F(NetworkPlanTest, TheInstallerOfDependenciesHasTheGatewayAndNothingElse) {
  model::PackageSettings packages;
  packages.pypi.index = "https://pypi.example/simple";
  packages.tenants["acme"].cooldown_days = 7;
  policy_ = policyOf("  - {name: none, why: a test, effect: deny}\n");
  ask(R"({"tier":"restricted"})");
  supposed_->principal = {};
  supposed_->principal.tenant = model::kInstallerTenant;
  supposed_->principal.app = "acme";
  Question asked = question();
  asked.packages = &packages;
  const auto permit = std::get<model::Permit>(decide(policy_, asked));
  ASSERT_TRUE(permit.network());
  EXPECT_THAT(permit.network()->rules, IsEmpty());
  ASSERT_TRUE(permit.network()->packages);
  EXPECT_EQ(permit.network()->packages->rules.cooldown_days, 7U) << "the rules of its tenant";
  EXPECT_EQ(decidingRule(policy_, asked), "installs dependencies");
  supposed_->principal.tenant = "acme";
  Question other = question();
  other.packages = &packages;
  EXPECT_TRUE(refusalOf(decide(policy_, other)));
  ask(R"({"tier":"full"})");
  supposed_->principal.tenant = model::kInstallerTenant;
  Question beyond = question();
  beyond.packages = &packages;
  EXPECT_TRUE(refusalOf(decide(policy_, beyond))) << "more than the gateway";
}

// pip follows addresses in the requirements of wheels: to the other half of the gateway, or to a
// source distribution, whose code would run in the installer.
TEST_F(NetworkPlanTest, TheInstallersGatewayHasItsOwnEcosystemWithoutSourceDistributions) {
  model::PackageSettings packages;
  packages.pypi.index = "https://pypi.example/simple";
  packages.npm.index = "https://npm.example";
  packages.rules.sdists_allowed = true;
  policy_ = policyOf("  - {name: none, why: a test, effect: deny}\n");
  ask(R"({"tier":"restricted"})");
  supposed_->principal = {};
  supposed_->principal.tenant = model::kInstallerTenant;
  supposed_->principal.app = "acme";
  for (const auto& [language, own] :
       {std::pair("python", model::Ecosystem::kPypi), std::pair("node", model::Ecosystem::kNpm)}) {
    Question asked = question();
    asked.packages = &packages;
    asked.language = language;
    const Decision decision = decide(policy_, asked);
    ASSERT_FALSE(refusalOf(decision)) << refusalOf(decision)->reason;
    const auto& permit = std::get<model::Permit>(decision);
    ASSERT_TRUE(permit.network() && permit.network()->packages) << language;
    EXPECT_THAT(permit.network()->packages->ecosystems, ::testing::ElementsAre(own)) << language;
    EXPECT_FALSE(permit.network()->packages->rules.sdists_allowed) << language;
  }
  Question other = question();
  other.packages = &packages;
  other.language = "bash";
  EXPECT_TRUE(refusalOf(decide(policy_, other))) << "nothing to install";
}

TEST_F(NetworkPlanTest, WithoutANetworkThereIsNoPlan) {
  rule("network: [\"api.example.com:443\"]");
  ask(R"({"tier":"none"})");
  const Decision decision = decide(policy_, question());
  const auto& permit = std::get<model::Permit>(decision);
  EXPECT_FALSE(permit.network());
  EXPECT_EQ(permit.fields().network_tier, "none");
  EXPECT_THAT(permit.fields().network_ports, IsEmpty());
  EXPECT_EQ(permit.fields().network_plan_sha256, "");
}

TEST_F(NetworkPlanTest, SilenceGrantsNoDestination) {
  rule("image: host");
  for (const std::string_view tier : {"restricted", "internal", "api", "full"}) {
    ask(R"({"tier":")" + std::string(tier) + "\"}");
    EXPECT_EQ(refusal().rule, "net") << tier;
    EXPECT_NE(refusal().remedy, "") << tier;
  }
}

TEST_F(NetworkPlanTest, ARequestNarrowsItsRule) {
  rule(
      "network: [{name: \"*.example.org\", ports: [443, 8443], protocol: tls, max_bytes: 9, "
      "on_denied: ask, dns: [TXT], why: docs}, \"db.example.com:5432\"]");
  ask(R"({"tier":"restricted"})");
  EXPECT_THAT(destinations(), ElementsAre("*.example.org:443,8443 tls", "db.example.com:5432 tcp"));
  ask(R"({"tier":"restricted","allow":["a.example.org:443"]})");
  EXPECT_THAT(destinations(), ElementsAre("a.example.org:443 tls"));
  const model::NetworkEntry kept = plan().rules.at(0).entry;
  EXPECT_EQ(kept.max_bytes, 9U);
  EXPECT_EQ(kept.on_denied, model::OnDenied::kAsk);
  EXPECT_THAT(kept.dns, ElementsAre("TXT"));
  EXPECT_EQ(kept.why, "docs");
  ask(R"({"tier":"restricted","allow":[{"name":"*.a.example.org","ports":[443,8443],
          "protocol":"tls"}]})");
  EXPECT_THAT(destinations(), ElementsAre("*.a.example.org:443,8443 tls"));
  // Any bytes include those of a known protocol.
  ask(R"({"tier":"restricted","allow":[{"name":"db.example.com","ports":[5432],
          "protocol":"tls"}]})");
  EXPECT_THAT(destinations(), ElementsAre("db.example.com:5432 tls"));
}

TEST_F(NetworkPlanTest, WhatTheRuleDoesNotGrantIsDeniedByName) {
  rule(
      "network: [{name: \"*.example.org\", ports: [443]}, "
      "{name: mirror.example.net, ports: [80], methods: [GET, HEAD], paths: [\"/debian/*\"]}]");
  const char* const wrong[] = {
      R"("evil.example.com:443")",
      R"("example.org:443")",
      R"("a.example.org:8443")",
      R"({"name":"a.example.org","ports":[443],"protocol":"tcp"})",
      R"({"name":"a.example.org","ports":[443,8443],"protocol":"tls"})",
      R"({"name":"mirror.example.net","ports":[80],"methods":["GET","POST"]})",
      R"({"name":"mirror.example.net","ports":[80],"paths":["/debian/*","/*"]})",
      R"({"name":"mirror.example.net","ports":[80],"paths":["/debianx"]})",
  };
  for (const char* each : wrong) {
    ask(R"({"tier":"restricted","allow":["b.example.org:443",)" + std::string(each) + "]}");
    const Denied denied = refusal();
    EXPECT_EQ(denied.rule, "net") << each;
    EXPECT_THAT(denied.reason, HasSubstr("is not one that this rule grants")) << each;
    EXPECT_THAT(denied.reason, HasSubstr(destinationText(entry(each)))) << each;
    EXPECT_THAT(denied.remedy, HasSubstr("*.example.org:443 tls")) << each;
  }
}

TEST_F(NetworkPlanTest, LeftOutMethodsAndPathsAreThoseOfTheRule) {
  rule(
      "network: [{name: m.example.net, ports: [80], methods: [GET], paths: [\"/a/*\"]}, "
      "{name: m.example.net, ports: [80], methods: [POST]}]");
  ask(R"({"tier":"restricted","allow":["m.example.net:80"]})");
  EXPECT_THAT(destinations(),
              ElementsAre("m.example.net:80 http GET /a/*", "m.example.net:80 http POST"));
  ask(R"({"tier":"restricted","allow":[{"name":"m.example.net","ports":[80],"methods":["GET"],
          "paths":["/a/b/*"]}]})");
  EXPECT_THAT(destinations(), ElementsAre("m.example.net:80 http GET /a/b/*"));
}

TEST_F(NetworkPlanTest, PortsOfSeveralEntriesCountTogether) {
  rule("network: [\"a.example.com:5432\", \"a.example.com:6543\"]");
  ask(R"({"tier":"restricted","allow":[{"name":"a.example.com","ports":[5432,6543]}]})");
  EXPECT_THAT(destinations(), ElementsAre("a.example.com:5432 tcp", "a.example.com:6543 tcp"));
  ask(R"({"tier":"restricted","allow":[{"name":"a.example.com","ports":[5432,6544]}]})");
  EXPECT_THAT(refusal().reason, HasSubstr("a.example.com:5432,6544"));
}

TEST_F(NetworkPlanTest, AnyNameIsForTheTierFull) {
  rule("match: {network_tiers: [restricted, full]}, network: [{name: \"*\", max_bytes: 5}]");
  ask(R"({"tier":"full"})");
  EXPECT_THAT(destinations(), ElementsAre("*:* tcp"));
  EXPECT_TRUE(plan().rules.at(0).anyone);
  EXPECT_EQ(plan().rules.at(0).entry.max_bytes, 5U);
  ask(R"({"tier":"full","allow":["a.example.com:443"]})");
  EXPECT_THAT(destinations(), ElementsAre("a.example.com:443 tls"));
  EXPECT_FALSE(plan().rules.at(0).anyone);
  EXPECT_EQ(plan().rules.at(0).entry.max_bytes, 5U);
  ask(R"({"tier":"restricted","allow":["a.example.com:443"]})");
  EXPECT_THAT(destinations(), ElementsAre("a.example.com:443 tls"));
  ask(R"({"tier":"restricted"})");
  EXPECT_THAT(refusal().reason, HasSubstr("the request names none"));
}

TEST_F(NetworkPlanTest, FullNeedsItsNameAndAnEntryForAnyName) {
  rule("match: {network_tiers: [full]}, network: [\"a.example.com:443\"]");
  ask(R"({"tier":"full"})");
  EXPECT_THAT(refusal().reason, HasSubstr("without an entry"));
  // A pattern names no tier.
  for (const std::string_view tier : {"full", "internal", "api"}) {
    rule("match: {network_tiers: [\"*\"]}, network: [\"a.example.com:443\"]");
    ask(R"({"tier":")" + std::string(tier) + "\"}");
    EXPECT_THAT(refusal().reason, HasSubstr("does not name the tier")) << tier;
  }
}

TEST_F(NetworkPlanTest, InternalIsTheOperatorsList) {
  internal_ =
      model::readInternal({"git.corp.example:443", "db.corp.example:5432", "10.1.0.0/16"}).value();
  rule("match: {network_tiers: [internal]}");
  ask(R"({"tier":"internal"})");
  EXPECT_THAT(destinations(), ElementsAre("git.corp.example:443 tls", "db.corp.example:5432 tcp"));
  EXPECT_TRUE(plan().rules.at(0).internal);
  EXPECT_THAT(plan().internal_networks, ElementsAre("10.1.0.0/16"));
  ask(R"({"tier":"internal","allow":["db.corp.example:5432"]})");
  EXPECT_THAT(destinations(), ElementsAre("db.corp.example:5432 tcp"));
  EXPECT_TRUE(plan().rules.at(0).internal);
  ask(R"({"tier":"internal","allow":["api.example.com:443"]})");
  EXPECT_THAT(refusal().reason, HasSubstr("api.example.com:443"));
  // Entries of the rule narrow the list, and add nothing.
  rule(
      "match: {network_tiers: [internal, restricted]}, "
      "network: [\"git.corp.example:443\", \"api.example.com:443\"]");
  ask(R"({"tier":"internal"})");
  EXPECT_THAT(destinations(), ElementsAre("git.corp.example:443 tls"));
  ask(R"({"tier":"restricted"})");
  EXPECT_FALSE(plan().rules.at(0).internal) << "a private address stays closed";
  EXPECT_THAT(plan().internal_networks, IsEmpty());
  // The conditions of the rule's entries hold for the list.
  internal_ = model::readInternal({"wiki.corp.example:80", "10.1.0.0/16"}).value();
  rule(
      "match: {network_tiers: [internal]}, "
      "network: [{name: \"*.corp.example\", ports: [80], methods: [GET], max_bytes: 9}]");
  ask(R"({"tier":"internal"})");
  EXPECT_THAT(destinations(), ElementsAre("wiki.corp.example:80 http GET"));
  EXPECT_EQ(plan().rules.at(0).entry.max_bytes, 9U);
  rule(
      "match: {network_tiers: [internal]}, "
      "network: [{name: wiki.corp.example, ports: [80], methods: [GET]}]");
  EXPECT_THAT(destinations(), ElementsAre("wiki.corp.example:80 http GET"));
  internal_ = {};
  ask(R"({"tier":"internal"})");
  EXPECT_THAT(refusal().reason, HasSubstr("egress.internal"));
}

TEST_F(NetworkPlanTest, ApiIsThisServiceAlone) {
  rule("match: {network_tiers: [api]}, network: [\"a.example.com:443\"]");
  ask(R"({"tier":"api"})");
  EXPECT_THAT(destinations(), ElementsAre("api.cloister.internal:80 http"));
  ask(R"({"tier":"api","allow":["a.example.com:443"]})");
  EXPECT_THAT(refusal().reason, HasSubstr("a.example.com:443"));
}

TEST_F(NetworkPlanTest, TheLevelOfAnAgentBoundsTheTier) {
  internal_ = model::readInternal({"git.corp.example:443"}).value();
  rule(
      "match: {network_tiers: [none, restricted, internal, api, full]}, "
      "network: [{name: \"*\"}, \"a.example.com:443\"]");
  const std::map<std::string, std::set<std::string>> permitted = {
      {"denied", {"none"}},
      {"internal_only", {"none", "internal"}},
      {"allowed_with_monitoring", {"none", "restricted", "internal", "api", "full"}},
      {"allowed", {"none", "restricted", "internal", "api", "full"}}};
  for (const auto& [access, tiers] : permitted) {
    agent_ = AgentNetwork{.access = access, .requests_per_minute = 0, .approved = {}};
    for (const std::string_view tier : model::kNetworkTiers) {
      ask(R"({"tier":")" + std::string(tier) + "\"}");
      EXPECT_EQ(refusal().reason.empty(), tiers.contains(std::string(tier))) << access << tier;
    }
  }
}

TEST_F(NetworkPlanTest, AnApprovalAddsItsDestination) {
  rule("network: [\"a.example.com:443\"]");
  approve(R"("b.example.com:443")");
  ask(R"({"tier":"restricted"})");
  EXPECT_THAT(destinations(), ElementsAre("b.example.com:443 tls", "a.example.com:443 tls"));
  EXPECT_EQ(plan().rules.at(0).rule, "ESC-2026-001");
  ask(R"({"tier":"restricted","allow":["b.example.com:443"]})");
  EXPECT_THAT(destinations(), ElementsAre("b.example.com:443 tls"));
  rule("image: host");
  EXPECT_THAT(destinations(), ElementsAre("b.example.com:443 tls")) << "the rule grants none";
  agent_.reset();
  approve(R"("b.example.com:443")", 1000);
  EXPECT_THAT(refusal().reason, HasSubstr("grants no destination")) << "it has expired";
}

TEST_F(NetworkPlanTest, AnApprovalOpensNoMoreThanItsDestination) {
  rule("network: [\"a.example.com:443\"]");
  approve(R"("b.example.com:443")");
  agent_->access = "denied";
  ask(R"({"tier":"restricted"})");
  EXPECT_THAT(destinations(), ElementsAre("b.example.com:443 tls"));
  ask(R"({"tier":"restricted","allow":["b.example.com:443","a.example.com:443"]})");
  EXPECT_THAT(refusal().reason, HasSubstr("network_access is denied"));
  ask(R"({"tier":"full"})");
  EXPECT_THAT(refusal().reason, HasSubstr("network_access is denied"));
}

TEST_F(NetworkPlanTest, AProgramOfASessionHasNoPlanOfItsOwn) {
  rule("network: [\"a.example.com:443\"]");
  ask(R"({"tier":"restricted","allow":["b.example.com:443"]})");
  Question inside = question();
  inside.inside = "process";
  const Decision decision = decide(policy_, inside);
  const auto& permit = std::get<model::Permit>(decision);
  EXPECT_FALSE(permit.network());
  EXPECT_EQ(permit.fields().network_tier, "none");
  EXPECT_EQ(permit.fields().network_plan_sha256, "");
}

TEST_F(NetworkPlanTest, APlanIsBounded) {
  rule("network: [{name: \"*.example.org\", ports: [80]}]");
  std::string allow;
  for (int i = 0; i < 200; ++i) {
    std::string paths;
    for (int path = 0; path < 5; ++path)
      paths += (path == 0 ? "\"/" : ",\"/") + std::string(300, 'x') + std::to_string(path) + "\"";
    allow += (i == 0 ? "" : ",") + std::string(R"({"name":"h)") + std::to_string(i) +
             R"(.example.org","ports":[80],"paths":[)" + paths + "]}";
  }
  ask(R"({"tier":"restricted","allow":[)" + allow + "]}");
  EXPECT_THAT(refusal().reason, HasSubstr("more destinations than a sandbox can have"));
  std::string many;
  for (int i = 0; i < 21; ++i) {
    std::string paths;
    for (int path = 0; path < 64; ++path)
      paths += (path == 0 ? "\"/p" : ",\"/p") + std::to_string(path) + "\"";
    many += (i == 0 ? "" : ",") + std::string(R"({"name":"h)") + std::to_string(i) +
            R"(.example.org","ports":[80],"paths":[)" + paths + "]}";
  }
  ask(R"({"tier":"restricted","allow":[)" + many + "]}");
  EXPECT_THAT(refusal().reason, HasSubstr("more than 1024 paths"));
}

TEST(NetworkGrants, OneEntryLiesWithinAnother) {
  const auto within = [](std::string_view inner, std::string_view outer) {
    return liesWithin(entry(inner), entry(outer));
  };
  EXPECT_TRUE(within(R"("a.b.example:443")", R"("*.b.example:443")"));
  EXPECT_TRUE(within(R"("*.a.b.example:443")", R"("*.b.example:443")"));
  EXPECT_FALSE(within(R"("*.b.example:443")", R"("a.b.example:443")"));
  EXPECT_FALSE(within(R"("b.example:443")", R"("*.b.example:443")"));
  EXPECT_TRUE(within(R"("a.example:443")", R"({"name":"*"})"));
  EXPECT_FALSE(within(R"({"name":"*"})", R"("*.example.org:443")"));
  EXPECT_FALSE(within(R"({"name":"*"})", R"({"name":"*","ports":[443],"protocol":"tcp"})"));
  EXPECT_FALSE(
      within(R"({"name":"a.b.example","ports":[443],"protocol":"http"})", R"("a.b.example:443")"));
  const std::string outer =
      R"({"name":"m.example","ports":[80],"methods":["GET"],"paths":["/a/*","/b"]})";
  const auto paths = [&](std::string_view list) {
    return within(R"({"name":"m.example","ports":[80],"paths":)" + std::string(list) + "}", outer);
  };
  EXPECT_TRUE(paths(R"(["/a/x/*","/b"])"));
  EXPECT_FALSE(paths(R"(["/*"])"));
  EXPECT_FALSE(paths(R"(["/b*"])"));
  EXPECT_TRUE(within(R"("m.example:80")", outer)) << "absent members are those of the other";
}

}  // namespace
}  // namespace cloister::policy

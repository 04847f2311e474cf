// SPDX-License-Identifier: Apache-2.0
// Encodings of plans, and the use of a network in results.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/network.h"

namespace cloister::model {
namespace {

using testing::HasSubstr;

NetworkPlan samplePlan() {
  NetworkPlan plan;
  plan.permit = "permit_1";
  plan.generation = 3;
  plan.tier = "restricted";
  plan.tenant = "acme";
  plan.agent = "bob";
  plan.policy_id = "default@sha256:00";
  plan.on_denied = OnDenied::kEscalate;
  plan.requests_per_minute = 60;
  plan.internal_networks = {"10.1.0.0/16"};
  NetworkEntry entry;
  entry.name = "api.example.com";
  entry.ports = {80, 8080};
  entry.protocol = Protocol::kHttp;
  entry.methods = {"GET"};
  entry.paths = {"/v1/*"};
  entry.dns = {"TXT"};
  entry.max_bytes = 4096;
  entry.on_denied = OnDenied::kAsk;
  entry.why = "weather";
  plan.rules.push_back({.entry = entry, .rule = "weather"});
  NetworkEntry wiki;
  wiki.name = "*.corp.example";
  wiki.ports = {443};
  wiki.protocol = Protocol::kTls;
  plan.rules.push_back({.entry = wiki, .rule = "wiki", .internal = true});
  NetworkEntry any;
  any.name = kAnyName;
  plan.rules.push_back({.entry = any, .rule = "all", .anyone = true});
  return plan;
}

// Bytes of the sample with one part replaced.
std::string changed(std::string_view from, std::string_view to) {
  std::string bytes = encodePlan(samplePlan());
  const size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return bytes.replace(at, from.size(), to);
}

TEST(NetworkPlan, HasOneEncoding) {
  const std::string bytes = encodePlan(samplePlan());
  EXPECT_EQ(bytes,
            R"({"agent":"bob","generation":3,"internal_networks":["10.1.0.0/16"],)"
            R"("on_denied":"escalate","permit":"permit_1","policy_id":"default@sha256:00",)"
            R"("requests_per_minute":60,"rules":[{"entry":{"dns":["TXT"],"max_bytes":4096,)"
            R"("methods":["GET"],"name":"api.example.com","on_denied":"ask","paths":["/v1/*"],)"
            R"("ports":[80,8080],"protocol":"http","why":"weather"},"rule":"weather"},)"
            R"({"entry":{"name":"*.corp.example","ports":[443]},"internal":true,"rule":"wiki"},)"
            R"({"anyone":true,"entry":{"name":"*"},"rule":"all"}],"tenant":"acme",)"
            R"("tier":"restricted"})");
  const auto plan = decodePlan(bytes);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(*plan, samplePlan());
}

TEST(NetworkPlan, EveryMemberIsSigned) {
  const auto differs = [](auto change) {
    NetworkPlan plan = samplePlan();
    change(plan);
    return encodePlan(plan) != encodePlan(samplePlan());
  };
  EXPECT_TRUE(differs([](auto& p) { p.permit = "permit_2"; }));
  EXPECT_TRUE(differs([](auto& p) { p.generation = 4; }));
  EXPECT_TRUE(differs([](auto& p) { p.tier = "full"; }));
  EXPECT_TRUE(differs([](auto& p) { p.tenant = "other"; }));
  EXPECT_TRUE(differs([](auto& p) { p.agent = ""; }));
  EXPECT_TRUE(differs([](auto& p) { p.policy_id = "x"; }));
  EXPECT_TRUE(differs([](auto& p) { p.on_denied = OnDenied::kDeny; }));
  EXPECT_TRUE(differs([](auto& p) { p.requests_per_minute = 0; }));
  EXPECT_TRUE(differs([](auto& p) { p.internal_networks.clear(); }));
  EXPECT_TRUE(differs([](auto& p) { p.rules.pop_back(); }));
  EXPECT_TRUE(differs([](auto& p) { p.rules[0].rule = "x"; }));
  EXPECT_TRUE(differs([](auto& p) { p.rules[1].internal = false; }));
  EXPECT_TRUE(differs([](auto& p) { p.rules[1].anyone = true; }));
}

NetworkPlan withSecret() {
  NetworkPlan plan = samplePlan();
  plan.secrets.push_back({.id = "s1",
                          .name = "KEY",
                          .version = 2,
                          .host = "api.example.com",
                          .port = 443,
                          .header = "authorization",
                          .format = "Bearer {}",
                          .placeholder = "",
                          .methods = {"GET"},
                          .paths = {"/v1/*"}});
  plan.secrets.push_back({.id = "s2",
                          .name = "OTHER",
                          .version = 1,
                          .host = "b.example.com",
                          .port = 8443,
                          .header = "",
                          .format = "{}",
                          .placeholder = "SECRETABCDEFGH234567",
                          .methods = {},
                          .paths = {}});
  return plan;
}

TEST(NetworkPlan, BrokeredSecretsArePartOfTheSignedBytes) {
  const std::string bytes = encodePlan(withSecret());
  EXPECT_THAT(
      bytes,
      HasSubstr(R"("secrets":[{"format":"Bearer {}","header":"authorization",)"
                R"("host":"api.example.com","id":"s1","methods":["GET"],"name":"KEY",)"
                R"("paths":["/v1/*"],"placeholder":"","port":443,"version":2},)"
                R"({"format":"{}","header":"","host":"b.example.com","id":"s2","name":"OTHER",)"
                R"("placeholder":"SECRETABCDEFGH234567","port":8443,"version":1}],"tenant")"));
  const auto plan = decodePlan(bytes);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(*plan, withSecret());
}

TEST(NetworkPlan, RefusesOddSecrets) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("id":"s2")", R"("id":"s1")"},
           {R"("id":"s1")", R"("id":"")"},
           {R"("name":"KEY")", R"("name":"")"},
           {R"("version":2)", R"("version":0)"},
           {R"("port":443,"version")", R"("port":0,"version")"},
           {R"("authorization")", R"("Authorization")"},
           {R"("authorization")", R"("au thorization")"},
           {R"("Bearer {}")", R"("Bearer")"},
           {R"("Bearer {}")", R"("Bearer {}\r\nX: y")"},
           {R"("header":"authorization")", R"("header":"")"},
           {R"(["GET"],"name":"KEY")", R"(["get"],"name":"KEY")"},
           {R"("id":"s1")", R"("id":"s1","value":"x")"}}) {
    std::string bytes = encodePlan(withSecret());
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    EXPECT_FALSE(decodePlan(bytes.replace(at, from.size(), to))) << to;
  }
  NetworkPlan many = withSecret();
  while (many.secrets.size() <= kMaxSecretUses) {
    many.secrets.push_back(many.secrets[0]);
    many.secrets.back().id = "more" + std::to_string(many.secrets.size());
  }
  EXPECT_FALSE(decodePlan(encodePlan(many)));
}

TEST(NetworkPlan, APlanWithoutRulesAndAgentIsWhole) {
  const NetworkPlan plan{.permit = "p",
                         .tier = "none",
                         .tenant = "t",
                         .agent = "",
                         .policy_id = "",
                         .rules = {},
                         .internal_networks = {},
                         .packages = {},
                         .secrets = {}};
  EXPECT_EQ(decodePlan(encodePlan(plan)), plan);
}

TEST(NetworkPlan, RefusesEveryOtherText) {
  const std::string bytes = encodePlan(samplePlan());
  ASSERT_TRUE(decodePlan(bytes));
  for (const std::string& odd : {
           std::string(),
           std::string("[]"),
           bytes + " ",
           bytes + "x",
           changed(R"("agent":"bob",)", ""),
           changed(R"("agent":"bob")", R"("agent":7)"),
           changed(R"("agent":"bob")", R"("agent":"bo\u0062")"),
           changed(R"("agent":"bob")", R"("agent":"bob","agent":"bob")"),
           changed(R"("agent":"bob")", R"("admin":true,"agent":"bob")"),
           changed(R"("agent":"bob","generation":3)", R"("generation":3,"agent":"bob")"),
           changed(R"("generation":3)", R"("generation":0)"),
           changed(R"("generation":3)", R"("generation":-3)"),
           changed(R"("generation":3)", R"("generation":3.0)"),
           changed(R"("generation":3)", R"("generation":3.5)"),
           changed(R"("generation":3)", R"("generation":99999999999999999999)"),
           changed(R"("permit":"permit_1")", R"("permit":"")"),
           changed(R"("permit":"permit_1")", R"("permit":null)"),
           changed(R"("tenant":"acme")", R"("tenant":")" + std::string(257, 'a') + "\""),
           changed(R"("tier":"restricted")", R"("tier":"all")"),
           changed(R"("on_denied":"escalate")", R"("on_denied":"allow")"),
           changed(R"("requests_per_minute":60)", R"("requests_per_minute":4294967296)"),
           changed("10.1.0.0/16", "10.1.0.1/16"),
           changed(R"(["10.1.0.0/16"])", R"("10.1.0.0/16")"),
           changed("[80,8080]", "[8080,80]"),
           changed("[80,8080]", "[80,80,8080]"),
           changed("[80,8080]", "[]"),
           changed("api.example.com", "API.example.com"),
           changed("api.example.com", "*"),
           changed(R"("api.example.com")", R"("bücher.example")"),
           changed(R"(,"protocol":"http")", R"(,"protocol":"tcp")"),
           changed(R"("ports":[443]},"internal")", R"("ports":[443],"protocol":"tls"},"internal")"),
           changed(R"({"name":"*.corp.example","ports":[443]})", R"("*.corp.example:443")"),
           changed(R"("internal":true)", R"("internal":false)"),
           changed(R"("internal":true)", R"("anyone":true,"internal":true)"),
           changed(R"("anyone":true,)", ""),
           changed(R"("rule":"wiki")", R"("rule":"")"),
           changed(R"("rule":"wiki")", R"("more":1,"rule":"wiki")"),
       }) {
    const auto plan = decodePlan(odd);
    ASSERT_FALSE(plan) << odd;
    EXPECT_TRUE(plan.error().message.starts_with("decoding a network plan: "))
        << plan.error().message;
  }
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(decodePlan(std::string_view(bytes).substr(0, n))) << n;
}

TEST(NetworkPlan, IsBounded) {
  NetworkPlan plan = samplePlan();
  plan.rules.resize(kMaxNetworkEntries, plan.rules[1]);
  EXPECT_EQ(decodePlan(encodePlan(plan)), plan);
  plan.rules.push_back(plan.rules[1]);
  EXPECT_FALSE(decodePlan(encodePlan(plan)));
  NetworkPlan wide = samplePlan();
  for (int i = 0; i < 257; ++i)
    wide.internal_networks.emplace_back("10.1.0.0/16");
  EXPECT_FALSE(decodePlan(encodePlan(wide)));
  EXPECT_FALSE(decodePlan(std::string(kMaxPlanBytes + 1, ' ')));
}

DeniedDestination sampleDenied(uint16_t port, uint64_t count) {
  return {.host = "evil.test",
          .port = port,
          .transport = "tcp",
          .rule = "",
          .reason = "No rule allows evil.test.",
          .remedy = "Ask for it.",
          .count = count};
}

NetworkUse sampleUse() {
  return {.connections = 5,
          .bytes_in = 100,
          .bytes_out = 50,
          .denied = {sampleDenied(443, 2), sampleDenied(80, 1)},
          .denied_left_out = 3,
          .hint = "no network"};
}

TEST(NetworkPlan, NamesItsPortsInTheOrderOfItsRules) {
  NetworkPlan plan;
  plan.rules.resize(3);
  plan.rules[0].entry.ports = {5432};
  plan.rules[1].entry.ports = {80, 443, 5432};
  EXPECT_EQ(namedPorts(plan), (std::vector<uint16_t>{5432, 80, 443}));
  for (uint16_t port = 1000; port < 1100; ++port)
    plan.rules[2].entry.ports.push_back(port);
  EXPECT_EQ(namedPorts(plan).size(), kMaxNamedPorts);
  EXPECT_TRUE(namedPorts({}).empty());
}

TEST(NetworkUse, IsReadBackFromItsJson) {
  const NetworkUse use = sampleUse();
  EXPECT_EQ(
      base::toJson(toJsonObject(use)),
      R"({"connections":5,"bytes_in":100,"bytes_out":50,"denied":[{"host":"evil.test",)"
      R"("port":443,"transport":"tcp","rule":null,"reason":"No rule allows evil.test.",)"
      R"("remedy":"Ask for it.","count":2},{"host":"evil.test","port":80,"transport":"tcp",)"
      R"("rule":null,"reason":"No rule allows evil.test.","remedy":"Ask for it.","count":1}],)"
      R"("denied_left_out":3,"hint":"no network"})");
  EXPECT_EQ(readNetworkUse(toJsonObject(use)), use);
  NetworkUse named = use;
  named.denied[0].rule = "weather";
  EXPECT_EQ(readNetworkUse(toJsonObject(named)), named);
  EXPECT_EQ(readNetworkUse(toJsonObject(NetworkUse{})), NetworkUse{});
  EXPECT_EQ(base::toJson(toJsonObject(NetworkUse{})),
            R"({"connections":0,"bytes_in":0,"bytes_out":0,"denied":[],"denied_left_out":0,)"
            R"("hint":null})");
}

using Change = std::function<void(base::json::object&)>;

// Whether the sample's JSON is refused after the change.
bool refusedWith(const Change& change) {
  base::json::object object = toJsonObject(sampleUse());
  change(object);
  return !readNetworkUse(object).has_value();
}

TEST(NetworkUse, ReadsStrictly) {
  EXPECT_FALSE(refusedWith([](auto&) {}));
  const Change changes[] = {
      [](auto& use) { use["more"] = 1; },
      [](auto& use) { use.erase("connections"); },
      [](auto& use) { use["bytes_in"] = -1; },
      [](auto& use) { use["bytes_out"] = "1"; },
      [](auto& use) { use.erase("denied"); },
      [](auto& use) { use.erase("denied_left_out"); },
      [](auto& use) { use["hint"] = std::string(3000, 'x'); },
      [](auto& use) {
        use["denied"] = base::json::array(kMaxDeniedShown + 1, use["denied"].at(0));
      },
  };
  for (const Change& change : changes)
    EXPECT_TRUE(refusedWith(change)) << &change - changes;
}

TEST(NetworkUse, ReadsDestinationsStrictly) {
  const Change changes[] = {
      [](auto& denied) { denied["transport"] = "quic"; },
      [](auto& denied) { denied["port"] = 65536; },
      [](auto& denied) { denied["host"] = std::string(257, 'x'); },
      [](auto& denied) { denied["rule"] = std::string(257, 'x'); },
      [](auto& denied) { denied["reason"] = std::string(3000, 'x'); },
      [](auto& denied) { denied["remedy"] = std::string(3000, 'x'); },
      [](auto& denied) { denied["more"] = 1; },
      [](auto& denied) { denied.erase("count"); },
  };
  for (const Change& change : changes) {
    EXPECT_TRUE(refusedWith([&](auto& use) { change(use["denied"].as_array()[0].as_object()); }))
        << &change - changes;
  }
}

TEST(NetworkUse, SinceAnEarlierMomentIsTheDifference) {
  NetworkUse now = sampleUse();
  now.connections = 7;
  now.bytes_in = 110;
  now.bytes_out = 51;
  now.denied[0].count = 6;
  now.denied.push_back(sampleDenied(22, 1));
  now.denied_left_out = 4;
  const NetworkUse since = useSince(now, sampleUse());
  EXPECT_EQ(since.connections, 2U);
  EXPECT_EQ(since.bytes_in, 10U);
  EXPECT_EQ(since.bytes_out, 1U);
  EXPECT_EQ(since.denied_left_out, 1U);
  EXPECT_EQ(since.denied,
            (std::vector<DeniedDestination>{sampleDenied(443, 4), sampleDenied(22, 1)}));
  EXPECT_EQ(since.hint, "no network");
  EXPECT_EQ(useSince(now, NetworkUse{}), now);
  EXPECT_TRUE(useSince(now, now).denied.empty());
}

TEST(NetworkUse, SinceARestartOfTheCountsIsTheWholeUse) {
  NetworkUse now;
  now.connections = 1;
  now.denied = {sampleDenied(443, 1)};
  EXPECT_EQ(useSince(now, sampleUse()), now);
}

TEST(NetworkUse, DistinguishesDestinationsByTheirRule) {
  NetworkUse before;
  before.denied = {sampleDenied(443, 2)};
  NetworkUse now = before;
  DeniedDestination other = sampleDenied(443, 1);
  other.rule = "weather";
  now.denied.push_back(other);
  other.transport = "dns";
  now.denied.push_back(other);
  EXPECT_EQ(useSince(now, before).denied.size(), 2U);
}

}  // namespace
}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
#include "model/tool_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "model/tool.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The rules of a tool with `members`, in a registry with `registry`.
ToolRules rulesOf(std::string_view members, std::string_view registry = "") {
  const std::string yaml = "version: 1\n" + std::string(registry) +
                           "tools:\n  - {id: t, title: T, why: w, tool_type: run_code, " +
                           std::string(members) + ", request: {command: [\"true\"]}}\n";
  const auto set = ToolSet::parse(yaml, "tools.yaml");
  EXPECT_TRUE(set) << set.error().message;
  return set ? set->find("t").value()->rules : ToolRules();
}

RunRequest requestOf(std::string_view body) {
  return parseRunRequest(base::parseJson(body).value().as_object(), defaultBounds()).value();
}

RunRequest held(const ToolRules& rules, std::string_view body,
                ToolPlace place = ToolPlace::kOwnSandbox) {
  RunRequest request = requestOf(body);
  const auto done = holdToRules("t", rules, place, request);
  EXPECT_TRUE(done) << done.error().message;
  return request;
}

std::string tierOf(std::string_view risk, std::string_view asked = "",
                   std::string_view registry = "") {
  const std::string tier = asked.empty() ? "" : R"(,"tier":")" + std::string(asked) + "\"";
  const ToolRules rules =
      rulesOf("capabilities: [command_execution], risk: " + std::string(risk), registry);
  const RunRequest request = held(rules, R"({"command":["true"])" + tier + "}");
  const auto by_risk = request.metadata.find(std::string(kRiskTierMember));
  EXPECT_EQ(request.metadata.at(std::string(kRiskMember)), risk);
  return request.tier + (by_risk == request.metadata.end() ? "" : " by risk");
}

TEST(ToolRules, TheRiskIsTheLowestTier) {
  EXPECT_EQ(tierOf("low"), "");
  EXPECT_EQ(tierOf("medium"), "Assisted by risk");
  EXPECT_EQ(tierOf("high"), "HumanApprove by risk");
  EXPECT_EQ(tierOf("medium", "Auto"), "Assisted by risk");
  EXPECT_EQ(tierOf("medium", "ManualOnly"), "ManualOnly") << "asked for";
  EXPECT_EQ(tierOf("medium", "", "tiers: {medium: Auto}\n"), "") << "the operator's own word";
  EXPECT_EQ(tierOf("high", "", "tiers: {medium: Auto}\n"), "HumanApprove by risk");
}

TEST(ToolRules, ItsLimitsAreTheMost) {
  const ToolRules rules = rulesOf(
      "capabilities: [command_execution], risk: low, "
      "limits: {timeout_seconds: 5, memory_mb: 64, pids: 8}");
  const RunRequest unnamed = held(rules, R"({"command":["true"]})");
  EXPECT_EQ(unnamed.limits.wall, std::chrono::seconds(5));
  EXPECT_EQ(unnamed.limits.cpu_time, std::chrono::seconds(6)) << "it follows the time";
  EXPECT_EQ(unnamed.limits.memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(unnamed.limits.pids, 8U);
  EXPECT_EQ(unnamed.limits.open_files, Limits().open_files);
  EXPECT_FALSE(unnamed.named_limits.test(limitIndex(limit_name::kMemory))) << "policy may lower it";
  EXPECT_EQ(held(rules, R"({"command":["true"],"timeout_seconds":2})").limits.wall,
            std::chrono::seconds(2));
  RunRequest over = requestOf(R"({"command":["true"],"memory_mb":65})");
  const auto refused = holdToRules("t", rules, ToolPlace::kOwnSandbox, over);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "memory_mb");
  EXPECT_THAT(refused.error().message, HasSubstr("more than t allows; ask for at most 64"));
}

TEST(ToolRules, InASessionTheSandboxIsTheSessions) {
  const ToolRules rules = rulesOf(
      "capabilities: [command_execution], risk: low, "
      "limits: {timeout_seconds: 5, memory_mb: 64}");
  const RunRequest request = held(rules, R"({"command":["true"]})", ToolPlace::kSession);
  EXPECT_EQ(request.limits.wall, std::chrono::seconds(5));
  EXPECT_EQ(request.limits.memory_bytes, Limits().memory_bytes);
  RunRequest open = requestOf(R"({"command":["true"],"network_policy":{"tier":"full"}})");
  const auto refused = holdToRules("t", rules, ToolPlace::kSession, open);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "session_id");
}

TEST(ToolRules, TheNetworkAndTheNeedsAreTheTools) {
  const ToolRules rules =
      rulesOf("capabilities: [network, file_read, network], network: restricted, risk: low");
  const RunRequest request = held(rules, R"({"command":["true"]})");
  EXPECT_EQ(request.network.tier, "restricted");
  EXPECT_THAT(capabilitiesNeeded(request), ElementsAre("file_read", "network"));
  const json::object shown = toJsonObject(rules);
  EXPECT_EQ(shown.at("network"), "restricted");
  EXPECT_EQ(json::serialize(shown.at("capabilities")), R"(["file_read","network"])");
}

TEST(ToolRules, AToolMayNameItsDestinations) {
  const ToolRules rules = rulesOf(
      "capabilities: [network], risk: low, "
      "network: {tier: restricted, allow: [\"a.example.com:443\"]}");
  const RunRequest request = held(rules, R"({"command":["true"]})");
  EXPECT_EQ(request.network, rules.network);
  ASSERT_EQ(request.network.allow.size(), 1U);
  EXPECT_TRUE(toJsonObject(rules).contains("network_policy"));
  RunRequest same = request;
  EXPECT_TRUE(holdToRules("t", rules, ToolPlace::kSession, same));
  RunRequest wider = requestOf(R"({"command":["true"],"network_policy":{"tier":"restricted"}})");
  EXPECT_EQ(holdToRules("t", rules, ToolPlace::kSession, wider).error().field, "session_id");
}

TEST(ToolRules, WhatIsNoCallNeedsWhatItDoes) {
  EXPECT_THAT(capabilitiesNeeded(requestOf(R"({"command":["true"]})")),
              ElementsAre("command_execution"));
  EXPECT_THAT(capabilitiesNeeded(requestOf(
                  R"({"command":["true"],"files":[{"path":"a","content":""}],
                      "network_policy":{"tier":"api"}})")),
              ElementsAre("command_execution", "file_write", "network"));
}

// Tools without set-up must stay automatic.
TEST(ToolRules, TheInstallationsToolsAreAuto) {
  const std::string path = CLOISTER_SOURCE_DIR "/policies/tools.yaml";
  const auto set = ToolSet::parse(base::readFile(path).value(), path);
  ASSERT_TRUE(set) << set.error().message;
  for (const Tool& tool : set->all()) {
    EXPECT_EQ(tool.rules.tier, "Auto") << tool.id;
    EXPECT_EQ(tool.rules.network, NetworkRequest()) << tool.id;
  }
  const json::object search = toJsonObject(set->find("text.search").value()->rules);
  EXPECT_EQ(json::serialize(search.at("limits")), R"({"timeout_seconds":20,"memory_mb":128})");
}

}  // namespace
}  // namespace cloister::model

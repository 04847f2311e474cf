// SPDX-License-Identifier: Apache-2.0
// The bodies of /v1/agents: read strictly, changed in part, shown whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/rest/agent_requests.h"
#include "base/clock.h"
#include "base/file.h"

namespace cloister::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

base::json::object body(std::string_view text) {
  return base::parseJson(text)->as_object();
}

model::AgentSandbox made(std::string_view text) {
  model::AgentSandbox sandbox;
  sandbox.tenant = "acme";
  sandbox.agent = "alice";
  sandbox.created_by = "test";
  sandbox.created_at = sandbox.last_modified = base::wallMicros();
  const auto read = readAgentSandbox(body(text), sandbox);
  EXPECT_TRUE(read) << read.error().message;
  return sandbox;
}

std::string wrongField(std::string_view text) {
  model::AgentSandbox sandbox;
  const auto read = readAgentSandbox(body(text), sandbox);
  return read ? "" : read.error().field;
}

TEST(AgentBodies, AreReadStrictly) {
  const model::AgentSandbox sandbox = made(
      R"({"level":"standard","allowed_commands":["cargo build"],"forbidden_paths":["/etc/*"],
          "granted_operations":["network"],"limits":{"memory_mb":2048,"cpu_percent":50},
          "escalation":{"auto_approve_safe":true,"fallback_action":"deny"}})");
  EXPECT_EQ(sandbox.level, "standard");
  EXPECT_THAT(sandbox.allowed_commands, ElementsAre("cargo build"));
  EXPECT_EQ(sandbox.limits.cpu_percent, 50U);
  EXPECT_FALSE(sandbox.limits.time_seconds);
  EXPECT_EQ(wrongField("{}"), "level");
  EXPECT_EQ(wrongField(R"({"level":"a","x":1})"), "x");
  EXPECT_EQ(wrongField(R"({"level":"a","granted_operations":["fly"]})"), "granted_operations");
  EXPECT_EQ(wrongField(R"({"level":"a","limits":{"memory_mb":0}})"), "limits.memory_mb");
  EXPECT_EQ(wrongField(R"({"level":"a","forbidden_paths":[""]})"), "forbidden_paths");
  EXPECT_EQ(wrongField(R"({"level":"a","escalation":{"fallback_action":"allow"}})"),
            "escalation.fallback_action");
}

TEST(AgentBodies, AFilterOfItsOwn) {
  model::AgentSandbox sandbox = made(
      R"({"level":"standard","whitelist_mode":true,"dangerous_patterns":["git push *"],
          "parameter_restrictions":[{"command":"git","forbidden_flags":["--force"]}]})");
  EXPECT_TRUE(sandbox.whitelist_mode);
  EXPECT_THAT(sandbox.dangerous_patterns, ElementsAre("git push *"));
  ASSERT_TRUE(readAgentUpdate(
      body(R"({"add":{"parameter_restrictions":[{"command":"git","allowed_flags":["-v"]}]}})"),
      sandbox));
  ASSERT_EQ(sandbox.parameter_restrictions.size(), 1U) << "it is in place of the other";
  EXPECT_THAT(sandbox.parameter_restrictions[0].allowed_flags, ElementsAre("-v"));
  EXPECT_THAT(sandbox.parameter_restrictions[0].forbidden_flags, IsEmpty());
  const auto again = model::parseAgentRecord(model::toRecord(sandbox));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(model::toRecord(*again), model::toRecord(sandbox));
  ASSERT_TRUE(readAgentUpdate(body(R"({"whitelist_mode":false,
               "remove":{"dangerous_patterns":["git push *"],"parameter_restrictions":["git"]}})"),
                              sandbox));
  EXPECT_FALSE(sandbox.whitelist_mode);
  EXPECT_THAT(sandbox.dangerous_patterns, IsEmpty());
  EXPECT_TRUE(sandbox.parameter_restrictions.empty());
  EXPECT_FALSE(model::toRecord(sandbox).contains("parameter_restrictions"));
  EXPECT_EQ(wrongField(R"({"level":"a","parameter_restrictions":[{"command":"a/b"}]})"),
            "parameter_restrictions.command");
}

TEST(AgentBodies, AnUpdateChangesWhatItNames) {
  model::AgentSandbox sandbox = made(
      R"({"level":"standard","forbidden_commands":["curl *"],"revoked_operations":["network"]})");
  sandbox.temporary_permissions = {{"file_write", "/workspace/a", 1, "ESC-2026-001"},
                                   {"file_write", "/workspace/b", INT64_MAX, "ESC-2026-002"}};
  ASSERT_TRUE(readAgentUpdate(
      body(R"({"add":{"allowed_commands":["curl *"]},"grant":["network"]})"), sandbox));
  EXPECT_THAT(sandbox.forbidden_commands, IsEmpty()) << "it is allowed now";
  EXPECT_THAT(sandbox.revoked_operations, IsEmpty());
  EXPECT_THAT(sandbox.granted_operations, ElementsAre("network"));
  EXPECT_EQ(sandbox.level, "standard");
  EXPECT_EQ(sandbox.level_since, 0);
  EXPECT_EQ(sandbox.temporary_permissions.size(), 1U) << "one is over";
  ASSERT_TRUE(readAgentUpdate(body(R"({"level":"isolated"})"), sandbox));
  EXPECT_GT(sandbox.level_since, 0) << "earlier violations do not count at the new one";
  ASSERT_TRUE(readAgentUpdate(body(R"({"remove":{"allowed_commands":["curl *"]}})"), sandbox));
  EXPECT_THAT(sandbox.allowed_commands, IsEmpty());
  EXPECT_EQ(
      readAgentUpdate(body(R"({"remove":{"forbidden_paths":["/x"]}})"), sandbox).error().field,
      "remove.forbidden_paths");
  EXPECT_EQ(
      readAgentUpdate(body(R"({"grant":["network"],"revoke":["network"]})"), sandbox).error().field,
      "grant");
  EXPECT_FALSE(readAgentUpdate(body("{}"), sandbox));
}

TEST(AgentBodies, AreShownWithWhatTheyComeTo) {
  const policy::Levels levels =
      policy::parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(),
                          "levels")
          .value();
  const auto shownOf = [&](const std::string& body) {
    const model::AgentSandbox sandbox = made(body);
    return agentObject(sandbox, policy::makeAgentRules(levels, sandbox));
  };
  const base::json::object shown = shownOf(R"({"level":"restricted","limits":{"memory_mb":512}})");
  const auto& effective = shown.at("effective").as_object();
  EXPECT_EQ(effective.at("limits").at("memory_mb"), 512);
  EXPECT_EQ(effective.at("limits").at("time_seconds"), 1800);
  EXPECT_EQ(effective.at("network_access"), "internal_only");
  EXPECT_FALSE(shown.contains("level_since"));
  EXPECT_EQ(effective.at("auto_approve_by"), "level");
  const auto own = shownOf(R"({"level":"restricted","escalation":{"auto_approve_safe":false}})");
  EXPECT_EQ(own.at("effective").at("auto_approve_safe"), false);
  EXPECT_EQ(own.at("effective").at("auto_approve_by"), "sandbox");
  const base::json::object gone = shownOf(R"({"level":"gone"})");
  EXPECT_TRUE(gone.at("effective").is_null());
}

}  // namespace
}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// Limits that a request names, and limits that the request's rule sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_testing.h"  // needs CLOISTER_SOURCE_DIR

namespace cloister::policy {
namespace {

using testing::decideOn;
using ::testing::HasSubstr;
using testing::policyOf;

TEST(PolicyLimits, WhatIsNotNamedIsTheSmallerOfDefaultAndMax) {
  const Policy policy = policyOf(
      "  - {name: small, why: w, effect: allow, tier: Auto, max: {memory_mb: 128, timeout_seconds: "
      "10, cpu_millis: 500, pids: 8, disk_mb: 64, inodes: 100, file_size_mb: 5, open_files: 64, "
      "max_output_bytes: 4096}}\n");
  const Decision decision = decideOn(policy, R"({"request":{"language":"python","code":"1"}})");
  ASSERT_TRUE(std::holds_alternative<model::Permit>(decision)) << refusalOf(decision)->reason;
  const model::Limits& limits = std::get<model::Permit>(decision).fields().limits;
  EXPECT_EQ(limits.memory_bytes, 128U << 20);
  EXPECT_EQ(limits.wall, std::chrono::seconds(10));
  EXPECT_EQ(limits.cpu_time, std::chrono::seconds(11)) << "it follows the wall time";
  EXPECT_EQ(limits.cpu_millis, 500U);
  EXPECT_EQ(limits.pids, 8U);
  EXPECT_EQ(limits.disk_bytes, 64U << 20);
  EXPECT_EQ(limits.inodes, 100U);
  EXPECT_EQ(limits.file_bytes, 5U << 20);
  EXPECT_EQ(limits.open_files, 64U);
  EXPECT_EQ(limits.output_bytes, 4096U);
}

TEST(PolicyLimits, ALargeMaxRaisesNothing) {
  const Policy policy = policyOf(
      "  - {name: large, why: w, effect: allow, tier: Auto, max: {memory_mb: 4096, "
      "timeout_seconds: "
      "600}}\n");
  const Decision decision = decideOn(policy, testing::kPython);
  const model::Limits& limits = std::get<model::Permit>(decision).fields().limits;
  model::Limits usual;
  model::settle(usual);
  EXPECT_EQ(limits, usual);
}

TEST(PolicyLimits, WhatIsNamedIsNeverClamped) {
  const Policy policy =
      policyOf("  - {name: small, why: w, effect: allow, tier: Auto, max: {memory_mb: 128}}\n");
  const Decision decision =
      decideOn(policy, R"({"request":{"language":"python","code":"1","memory_mb":256}})");
  ASSERT_TRUE(std::holds_alternative<Denied>(decision)) << "256 is the default, and was asked for";
  EXPECT_THAT(std::get<Denied>(decision).reason, HasSubstr("memory_mb"));
}

}  // namespace
}  // namespace cloister::policy

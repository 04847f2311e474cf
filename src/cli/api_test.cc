// SPDX-License-Identifier: Apache-2.0
#include "cli/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

TEST(Refusal, NamesTheAgentBesideTheTenant) {
  const Error refused = refusal({.status = 404, .headers = {}},
                                R"({"error":{"message":"there is no session ses_1"}})");
  EXPECT_EQ(refused.code, Code::kNotFound);
  EXPECT_THAT(
      refused.message,
      testing::EndsWith("check the id, and that it belongs to this key's tenant and agent"));
}

TEST(Refusal, LeavesAnEntryOfTheLogAlone) {
  const std::string message = "the audit entry at position 7 has no sealed \"what\"";
  const std::string body = base::toJson(base::json::object{{"detail", message}});
  EXPECT_EQ(refusal({.status = 404, .headers = {}}, body).message, message);
}

TEST(Refusal, AdvisesToRepeatOnlyWhatMaySucceed) {
  const auto told = [](const char* body) {
    return refusal({.status = 429, .headers = {}}, body).message;
  };
  EXPECT_EQ(told(R"({"error":{"message":"full","retryable":true}})"),
            "the server refused: full; try again in a moment");
  EXPECT_EQ(told(R"({"error":{"message":"full"}})"),
            "the server refused: full; try again in a moment");
  EXPECT_EQ(told(R"({"error":{"message":"too much","retryable":false}})"),
            "the server refused: too much");
}

TEST(Refusal, VersionsOfThePolicyAreInItsHistory) {
  const std::string message = "there is no version 99 of the policy";
  const std::string body = base::toJson(base::json::object{{"detail", message}});
  EXPECT_EQ(refusal({.status = 404, .headers = {}}, body).message,
            message + "; see `cloister policy history`");
}

TEST(Refusal, SpeaksInFlags) {
  const auto told = [](int status, std::string_view message) {
    return refusal({.status = status, .headers = {}},
                   base::toJson(base::json::object{{"detail", message}}))
        .message;
  };
  EXPECT_EQ(told(400, "memory_mb: must be at most 1024"), "--memory: must be at most 1024");
  EXPECT_EQ(told(400, "the limit timeout_seconds is 300"), "the limit --timeout is 300");
  EXPECT_EQ(told(400, "deps[0]: is no package"), "--dep[0]: is no package");
  EXPECT_EQ(told(400, "network_policy.tier: must be none"), "--network: must be none");
  EXPECT_EQ(told(400, "runtime: no \"x\""), "--runtime: no \"x\"");
  EXPECT_EQ(told(400, "there are no deps"), "there are no deps");
  EXPECT_EQ(told(400, "raise limits.memory_mb"), "raise limits.memory_mb") << "is a setting";
  EXPECT_EQ(told(400, "see GET /v1/whoami; now"), "see `cloister whoami`; now");
  EXPECT_EQ(told(400, "my_memory_mb is a word"), "my_memory_mb is a word");
  EXPECT_EQ(told(409, "it is there"), "the server refused: it is there");
  EXPECT_EQ(told(500, "it broke"), "the server failed: it broke");
}

}  // namespace
}  // namespace cloister::cli

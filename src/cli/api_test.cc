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
  EXPECT_EQ(refusal({.status = 404, .headers = {}}, body).message,
            "the server refused: " + message);
}

}  // namespace
}  // namespace cloister::cli

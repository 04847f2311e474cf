// SPDX-License-Identifier: Apache-2.0
#include "store/records/change_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::store {
namespace {

std::vector<std::string> lineOf(const model::AuditEvent& event) {
  std::vector<std::string> all;
  for (const base::LogField& field :
       ChangeLine({.position = 7, .seq = 3, .at = 0, .event = event, .prev = {}, .hash = {}})
           .fields())
    all.push_back(std::string(field.key) + "=" + field.value);
  return all;
}

TEST(ChangeLine, HasIdsAndWordsOfOursAndNothingElse) {
  const model::Principal who{.tenant = "acme",
                             .app = "",
                             .agent = "ci",
                             .user = "",
                             .key_id = "key_1",
                             .request = "req_1"};
  EXPECT_THAT(lineOf({.action = "execution.finished",
                      .subject = "exec_1",
                      .principal = who,
                      .details = {{"status", "failed"},
                                  {"session", "ses_1"},
                                  {"error", "a text of a client"},
                                  {"runtime", {{"sealed", "x"}}},
                                  {"reason", "secret"}}}),
              testing::ElementsAre("execution=exec_1", "session=ses_1", "status=failed",
                                   "tenant=acme", "agent=ci", "request=req_1", "audit_position=7"));
  EXPECT_THAT(lineOf({.action = "key.created", .subject = "key_2", .principal = {}, .details = {}}),
              testing::ElementsAre("subject=key_2", "audit_position=7"));
}

}  // namespace
}  // namespace cloister::store

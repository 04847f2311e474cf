// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/egress/attempts.h"

#include <gtest/gtest.h>

#include "orchestrator/egress/egress_testing.h"

namespace cloister::orchestrator {
namespace {

using wire::egress::Batch;

DoorOwner madeOwner(const std::string& tenant, const std::string& agent) {
  DoorOwner owner;
  owner.principal.tenant = tenant;
  owner.principal.agent = agent;
  return owner;
}
DoorOwner ofRun() {
  DoorOwner owner = madeOwner("acme", "alice");
  owner.execution_id = "exec_1";
  return owner;
}
DoorOwner ofSession() {
  DoorOwner owner = madeOwner("globex", "bob");
  owner.session_id = "ses_1";
  return owner;
}
const DoorOwner kRun = ofRun();
const DoorOwner kSession = ofSession();

const DoorOwner* ownerOf(const std::string& permit) {
  if (permit == "p1") return &kRun;
  return permit == "p2" ? &kSession : nullptr;
}

TEST(Attempts, MakeARowForEachDoor) {
  const Batch batch{.number = 7,
                    .attempts = {attemptOf("p1", "a.test"), attemptOf("p2", "b.test", true),
                                 attemptOf("p1", "c.test")},
                    .left_out = 4};
  const auto events = attemptEvents(batch, ownerOf);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].action, "network.attempts");
  EXPECT_EQ(events[0].subject, "exec_1");
  EXPECT_EQ(events[0].principal.tenant, "acme");
  EXPECT_EQ(events[0].details.at("batch"), 7);
  EXPECT_EQ(events[0].details.at("permit"), "p1");
  EXPECT_FALSE(events[0].details.contains("left_out"));
  EXPECT_EQ(events[0].details.at("attempts").as_array().size(), 2U);
  EXPECT_EQ(events[1].subject, "ses_1");
  EXPECT_EQ(events[1].principal.agent, "bob");
  EXPECT_FALSE(events[1].details.contains("left_out"));
  EXPECT_EQ(events[2].principal.tenant, "system");
  EXPECT_EQ(events[2].details.at("left_out"), 4);
}

TEST(Attempts, NameTheDecidingRuleAndPlan) {
  const auto events = attemptEvents(
      {.number = 1, .attempts = {attemptOf("p1", "a.test", true)}, .left_out = 0}, ownerOf);
  const auto& shown = events.at(0).details.at("attempts").as_array().at(0).as_object();
  EXPECT_EQ(shown.at("host"), "a.test");
  EXPECT_EQ(shown.at("port"), 443);
  EXPECT_EQ(shown.at("allowed"), true);
  EXPECT_EQ(shown.at("rule"), "web");
  EXPECT_EQ(shown.at("plan_sha256").as_string(), std::string(64, 'a'));
  EXPECT_EQ(shown.at("count"), 2);
  EXPECT_EQ(shown.at("bytes_in"), 10);
  EXPECT_EQ(shown.at("bytes_out"), 5);
  EXPECT_TRUE(shown.at("address").is_null());
}

TEST(Attempts, AreSplitIntoBoundedRows) {
  Batch batch{.number = 1, .attempts = {}, .left_out = 0};
  for (size_t i = 0; i < 2 * kAttemptsOfRow + 1; i++)
    batch.attempts.push_back(attemptOf("p1", "h" + std::to_string(i) + ".test"));
  const auto events = attemptEvents(batch, ownerOf);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].details.at("attempts").as_array().size(), kAttemptsOfRow);
  EXPECT_EQ(events[2].details.at("attempts").as_array().size(), 1U);
}

TEST(Attempts, OfAnUnknownPermitAreTheServices) {
  const auto events =
      attemptEvents({.number = 1, .attempts = {attemptOf("p9", "a.test")}, .left_out = 0}, ownerOf);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].principal.tenant, "system");
  EXPECT_EQ(events[0].details.at("permit"), "p9");
}

TEST(Attempts, ThatAreOnlyCountedHaveARow) {
  const auto events = attemptEvents({.number = 1, .attempts = {}, .left_out = 9}, ownerOf);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].details.at("left_out"), 9);
  EXPECT_TRUE(attemptEvents({.number = 2, .attempts = {}, .left_out = 0}, ownerOf).empty());
}

TEST(Attempts, ShowHostileNamesSafely) {
  auto hostile = attemptOf("p1", "a\x1b]0;x\x07\n.test");
  hostile.reason = std::string(5'000, 'r');
  const auto events = attemptEvents({.number = 1, .attempts = {hostile}, .left_out = 0}, ownerOf);
  const auto& shown = events.at(0).details.at("attempts").as_array().at(0).as_object();
  EXPECT_FALSE(std::string_view(shown.at("host").get_string()).contains('\x1b'));
  EXPECT_LT(shown.at("reason").get_string().size(), 1'000U);
}

TEST(Attempts, ALaterPlanIsRecordedByItsDigest) {
  auto plan = planOf("p2");
  plan.generation = 3;
  const auto event = plannedEvent(kSession, plan, "policy");
  EXPECT_EQ(event.action, "network.planned");
  EXPECT_EQ(event.subject, "ses_1");
  EXPECT_EQ(event.details.at("plan_sha256").as_string(), digestOf(plan));
  EXPECT_EQ(event.details.at("generation"), 3);
  EXPECT_EQ(event.details.at("rules").as_array().size(), 1U);
  EXPECT_EQ(event.details.at("why"), "policy");
}

}  // namespace
}  // namespace cloister::orchestrator

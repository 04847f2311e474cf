// SPDX-License-Identifier: Apache-2.0
// Tests who may decide on an escalation, and which requests an approval covers.
#include "policy/approval.h"

#include <gmock/gmock.h>

namespace cloister::policy {
namespace {

using model::Escalation;
using model::EscalationStatus;
using model::Role;
using testing::HasSubstr;

constexpr int64_t kNow = 1'800'000'000'000'000;
constexpr int64_t kHour = int64_t{3600} * 1'000'000;

model::Principal who(const std::string& user, model::Roles roles, const std::string& key = "") {
  return {.tenant = "acme",
          .app = "",
          .agent = "",
          .user = user,
          .roles = roles,
          .key_id = key.empty() ? "key_" + user : key};
}

Escalation asked() {
  Escalation e;
  e.id = "ESC-2026-001";
  e.operation = "run";
  e.requester = who("dev", Role::kAgent);
  e.requester.agent = "coder";
  e.requester_person = "acme/user:dev";
  e.digest = "sha256:1";
  e.roles = {"approver"};
  e.grant_us = 2 * kHour;
  e.created_at = kNow;
  e.expires_at = kNow + kHour;
  return e;
}

Ballot ballot(const std::string& user, bool approve = true, model::Roles roles = Role::kApprover) {
  return {.by = who(user, roles),
          .person = "acme/user:" + user,
          .approve = approve,
          .reason = "because",
          .now = kNow + 1};
}

Use useOf(const Escalation& e) {
  return {.by = e.requester,
          .execution_id = "exec_1",
          .session_id = e.session_id,
          .digest = e.digest,
          .now = kNow + 2};
}

TEST(Approval, ItsTimesAreInOrderThoughTheClockIsSetBack) {
  Escalation e = asked();
  Ballot early = ballot("boss");
  early.now = e.created_at - kHour;
  ASSERT_TRUE(vote(e, early));
  EXPECT_EQ(e.decisions.back().at, e.created_at);
  EXPECT_EQ(e.decided_at, e.created_at);
  EXPECT_EQ(e.grant_expires_at, e.decided_at + 2 * kHour);
  Use use_early = useOf(e);
  use_early.now = e.created_at - kHour;
  ASSERT_TRUE(use(e, use_early));
  EXPECT_EQ(e.ended_at, e.decided_at);
}

TEST(Approval, OneApproverApproves) {
  Escalation e = asked();
  ASSERT_TRUE(vote(e, ballot("boss")));
  EXPECT_EQ(e.status, EscalationStatus::kApproved);
  EXPECT_EQ(e.grant_expires_at, kNow + 1 + 2 * kHour);
  EXPECT_EQ(e.decisions.size(), 1U);
  EXPECT_FALSE(vote(e, ballot("other"))) << "it is decided";
}

TEST(Approval, TheShortestTimeOfItsApproversHolds) {
  Escalation e = asked();
  e.quorum = 3;
  Ballot longer = ballot("boss");
  longer.grant_us = e.grant_us + 1;
  EXPECT_EQ(vote(e, longer).error().field, "grant_seconds");
  longer.grant_us = kHour;
  Ballot shorter = ballot("other");
  shorter.grant_us = kHour / 2;
  ASSERT_TRUE(vote(e, longer));
  ASSERT_TRUE(vote(e, shorter));
  ASSERT_TRUE(vote(e, ballot("third")));
  EXPECT_EQ(e.grant_expires_at, kNow + 1 + kHour / 2);
}

// As long as the approval was not used.
TEST(Approval, TheServiceDeniesWhatIsOpen) {
  Escalation pending = asked();
  ASSERT_TRUE(denyByRule(pending, "why", kNow + 1));
  EXPECT_EQ(pending.status, EscalationStatus::kDenied);
  EXPECT_TRUE(pending.decisions.back().automatic);
  EXPECT_EQ(pending.ended_at, kNow + 1);
  EXPECT_EQ(denyByRule(pending, "why", kNow + 2).error().code, Code::kConflict);
  Escalation used = asked();
  ASSERT_TRUE(vote(used, ballot("boss")));
  ASSERT_TRUE(use(used, useOf(used)));
  EXPECT_EQ(denyByRule(used, "why", kNow + 3).error().code, Code::kConflict);
}

// A vote ends with its credential, unless already used.
TEST(Approval, AStruckVoteDoesNotCount) {
  Escalation e = asked();
  e.quorum = 2;
  ASSERT_TRUE(vote(e, ballot("boss")));
  EXPECT_FALSE(strike(e, {"key_other"}));
  EXPECT_TRUE(strike(e, {"key_boss"}));
  EXPECT_FALSE(strike(e, {"key_boss"})) << "once";
  ASSERT_TRUE(vote(e, ballot("chief")));
  EXPECT_EQ(e.status, EscalationStatus::kPending) << "one of two";
  EXPECT_EQ(use(e, useOf(e)).error().field, approval::kRevoked);
  EXPECT_EQ(use(e, useOf(e)).error().message,
            "a credential that approved " + e.id + " was revoked since; it waits for another vote");
  ASSERT_TRUE(vote(e, ballot("boss"))) << "with a credential that stands";
  EXPECT_EQ(e.status, EscalationStatus::kApproved);
  EXPECT_TRUE(strike(e, {"key_chief"}));
  EXPECT_EQ(e.status, EscalationStatus::kPending) << "an approval that was not used waits again";
  EXPECT_EQ(e.grant_expires_at, 0);
  EXPECT_EQ(e.dueAt(), e.expires_at);
}

TEST(Approval, WhatIsAboutToStartStandsByVotesThatCount) {
  Escalation e = asked();
  ASSERT_TRUE(vote(e, ballot("boss")));
  Use by = useOf(e);
  ASSERT_TRUE(use(e, by));
  EXPECT_TRUE(stands(e, by, nullptr));
  EXPECT_TRUE(strike(e, {"key_boss"}));
  EXPECT_EQ(e.status, EscalationStatus::kUsed) << "for good";
  EXPECT_EQ(stands(e, by, nullptr).error().field, approval::kRevoked);
  EXPECT_TRUE(stands(e, by, nullptr).error().message.ends_with("; ask anew"));
  Escalation by_rule = asked();
  approveByRule(by_rule, "safe", kNow);
  EXPECT_FALSE(strike(by_rule, {""}));
}

TEST(Approval, NobodyDecidesOnTheirOwn) {
  struct Case {
    const char* what;
    Ballot ballot;
  };
  Ballot same_key = ballot("boss");
  same_key.by.key_id = asked().requester.key_id;
  Ballot same_agent = ballot("boss");
  same_agent.by.agent = "coder";
  const Case cases[] = {{"the user", ballot("dev")},
                        {"the user as administrator", ballot("dev", true, Role::kAdmin)},
                        {"the key", same_key},
                        {"the agent", same_agent}};
  for (const Case& each : cases) {
    Escalation e = asked();
    const auto refused = vote(e, each.ballot);
    ASSERT_FALSE(refused) << each.what;
    EXPECT_EQ(refused.error().code, Code::kDenied) << each.what;
    EXPECT_EQ(e.status, EscalationStatus::kPending) << each.what;
    EXPECT_TRUE(e.decisions.empty()) << each.what;
  }
}

// A key's creator chooses the spelling of the name, but the person is the same.
TEST(Approval, AUsersNameIsComparedWithoutCase) {
  for (const char* written : {"DEV", "Dev", "dev ", " DEV"}) {
    Escalation e = asked();
    const auto refused = vote(e, ballot(written));
    ASSERT_FALSE(refused) << written;
    EXPECT_EQ(refused.error().code, Code::kDenied) << written;
    e.requester_person = "acme/user:other";  // by the user's name alone
    EXPECT_FALSE(vote(e, ballot(written))) << written;
  }
  Escalation e = asked();
  e.quorum = 2;
  ASSERT_TRUE(vote(e, ballot("boss")));
  EXPECT_EQ(vote(e, ballot("BOSS")).error().code, Code::kConflict) << "a quorum is of persons";
  EXPECT_TRUE(vote(e, ballot("bosses")));
}

TEST(Approval, OtherNamesAreComparedByteByByte) {
  Escalation e = asked();
  e.requester_person = "ACME/user:other";
  e.requester.user = "";
  EXPECT_TRUE(vote(e, ballot("other")));
  e = asked();
  e.requester_person = "acme/agent:ci";
  Ballot by = ballot("");
  by.person = "acme/agent:CI";
  EXPECT_TRUE(vote(e, by));
}

TEST(Approval, ASameNamedUserOfAnotherTenantIsAnother) {
  Escalation e = asked();
  Ballot admin = ballot("dev", true, Role::kAdmin);
  admin.by.tenant = "ops";
  admin.by.key_id = "key_ops";
  admin.person = "ops/user:dev";
  EXPECT_TRUE(vote(e, admin));
}

TEST(Approval, TakesOneOfTheRoles) {
  Escalation e = asked();
  for (const model::Roles roles : {model::Roles(Role::kViewer), model::Roles(Role::kTenantAdmin),
                                   model::Roles(Role::kAgent)}) {
    const auto refused = vote(e, ballot("boss", true, roles));
    ASSERT_FALSE(refused) << model::toText(roles);
    EXPECT_EQ(refused.error().code, Code::kDenied);
  }
  e.roles = {"approver", "agent"};
  EXPECT_FALSE(vote(e, ballot("boss", true, Role::kAgent))) << "who runs code never decides";
  e.roles = {"operator"};
  EXPECT_FALSE(vote(e, ballot("boss")));
  EXPECT_TRUE(vote(e, ballot("boss", true, Role::kOperator)));
}

TEST(Approval, AQuorumIsOfPersons) {
  Escalation e = asked();
  e.quorum = 2;
  ASSERT_TRUE(vote(e, ballot("boss")));
  EXPECT_EQ(e.status, EscalationStatus::kPending);
  Ballot again = ballot("boss");
  again.by.key_id = "another key of the same person";
  const auto refused = vote(e, again);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_EQ(e.approvals(), 1U);
  ASSERT_TRUE(vote(e, ballot("chief")));
  EXPECT_EQ(e.status, EscalationStatus::kApproved);
}

TEST(Approval, OneDenialDenies) {
  Escalation e = asked();
  e.quorum = 2;
  ASSERT_TRUE(vote(e, ballot("boss")));
  ASSERT_TRUE(vote(e, ballot("chief", false)));
  EXPECT_EQ(e.status, EscalationStatus::kDenied);
  EXPECT_FALSE(vote(e, ballot("third")));
  const auto refused = use(e, useOf(e));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, approval::kDenied);
}

TEST(Approval, CanBeTakenBackUntilItIsUsed) {
  Escalation e = asked();
  ASSERT_TRUE(vote(e, ballot("boss")));
  ASSERT_TRUE(vote(e, ballot("boss", false)));
  EXPECT_EQ(e.status, EscalationStatus::kDenied);
  Escalation used = asked();
  ASSERT_TRUE(vote(used, ballot("boss")));
  ASSERT_TRUE(use(used, useOf(used)));
  EXPECT_FALSE(vote(used, ballot("boss", false)));
}

TEST(Approval, IsNotGivenAfterItsTime) {
  Escalation e = asked();
  Ballot late = ballot("boss");
  late.now = e.expires_at;
  EXPECT_FALSE(vote(e, late));
  EXPECT_FALSE(expire(e, e.expires_at - 1));
  ASSERT_TRUE(expire(e, e.expires_at));
  EXPECT_EQ(e.status, EscalationStatus::kExpired);
  EXPECT_EQ(e.dueAt(), 0);
}

// A difference between a use and the approved use, and the reason of the refusal.
struct Difference {
  const char* what;
  void (*make)(Use&);
  std::string_view reason;
};

TEST(Approval, IsBoundToWhatWasShown) {
  const Difference differences[] = {
      {"digest", [](Use& u) { u.digest = "sha256:2"; }, approval::kMismatch},
      {"no digest", [](Use& u) { u.digest = ""; }, approval::kMismatch},
      {"session", [](Use& u) { u.session_id = "ses_2"; }, approval::kMismatch},
      {"tenant", [](Use& u) { u.by.tenant = "evil"; }, approval::kMismatch},
      {"agent", [](Use& u) { u.by.agent = "other"; }, approval::kMismatch},
      {"user", [](Use& u) { u.by.user = "other"; }, approval::kMismatch},
      {"time", [](Use& u) { u.now = kNow + 3 * kHour; }, approval::kExpired},
  };
  for (const Difference& each : differences) {
    Escalation e = asked();
    ASSERT_TRUE(vote(e, ballot("boss")));
    Use changed = useOf(e);
    each.make(changed);
    const auto refused = use(e, changed);
    ASSERT_FALSE(refused) << each.what;
    EXPECT_EQ(refused.error().field, each.reason) << each.what;
    EXPECT_EQ(e.status, EscalationStatus::kApproved) << each.what;
  }
}

TEST(Approval, IsGoodForOneRun) {
  Escalation e = asked();
  EXPECT_EQ(use(e, useOf(e)).error().field, approval::kPending);
  ASSERT_TRUE(vote(e, ballot("boss")));
  ASSERT_TRUE(use(e, useOf(e)));
  EXPECT_EQ(e.execution_id, "exec_1");
  EXPECT_EQ(e.dueAt(), 0);
  Use second = useOf(e);
  second.execution_id = "exec_2";
  EXPECT_EQ(use(e, second).error().field, approval::kUsed);
  EXPECT_EQ(stands(e, second, nullptr).error().field, approval::kUsed);
  EXPECT_TRUE(stands(e, useOf(e), nullptr));
}

TEST(Approval, OfABlockedExecutionIsThatOnes) {
  Escalation e = asked();
  e.execution_id = "exec_1";
  ASSERT_TRUE(vote(e, ballot("boss")));
  Use other = useOf(e);
  other.execution_id = "exec_2";
  EXPECT_EQ(use(e, other).error().field, approval::kMismatch);
  EXPECT_TRUE(use(e, useOf(e)));
}

TEST(Approval, OfASessionThatIsUsedNamesIt) {
  Escalation e = asked();
  e.operation = "session";
  e.session_id = "ses_1";
  ASSERT_TRUE(vote(e, ballot("boss")));
  Use making = useOf(e);
  making.operation = "session";
  making.execution_id.clear();
  ASSERT_TRUE(use(e, making));
  EXPECT_EQ(use(e, making).error().message,
            "ESC-2026-001 has been used by ses_1; an approval is good for one session, ask anew");
}

TEST(Approval, OfAPermissionRunsNothing) {
  Escalation e = asked();
  e.operation = "file_write";
  ASSERT_TRUE(vote(e, ballot("boss")));
  EXPECT_EQ(use(e, useOf(e)).error().field, approval::kMismatch);
  ASSERT_TRUE(expire(e, e.grant_expires_at)) << "a permission ends by itself";
}

TEST(Approval, StandsOnlyWhileAllOfItDoes) {
  Escalation e = asked();
  ASSERT_TRUE(vote(e, ballot("boss")));
  ASSERT_TRUE(use(e, useOf(e)));
  Use image = useOf(e);
  image.digest = "sha256:of another image";
  EXPECT_EQ(stands(e, image, nullptr).error().field, approval::kMismatch);
  Use late = useOf(e);
  late.now = e.grant_expires_at;
  EXPECT_EQ(stands(e, late, nullptr).error().field, approval::kExpired);
  NeedsApproval wanted{.rule = "r", .reason = "w", .approver_roles = {"approver"}};
  EXPECT_TRUE(stands(e, useOf(e), &wanted));
  wanted.quorum = 2;
  EXPECT_EQ(stands(e, useOf(e), &wanted).error().field, approval::kMismatch);
}

// A request by hand asks the configuration's approvers; the rule of the run may name others.
TEST(Approval, CountsOnlyThoseWhomTheRuleNames) {
  Escalation e = asked();
  ASSERT_TRUE(vote(e, ballot("boss")));
  ASSERT_TRUE(use(e, useOf(e)));
  NeedsApproval wanted{.rule = "release", .reason = "w", .approver_roles = {"tenant-admin"}};
  const auto refused = stands(e, useOf(e), &wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, approval::kMismatch);
  EXPECT_NE(refused.error().message.find("release"), std::string::npos);
  e.decisions.front().by.roles = model::Role::kTenantAdmin;
  EXPECT_TRUE(stands(e, useOf(e), &wanted));
  e.decisions.front().by.roles = model::Role::kAdmin;
  EXPECT_TRUE(stands(e, useOf(e), &wanted));
  e.decisions.front().automatic = true;
  EXPECT_FALSE(stands(e, useOf(e), &wanted)) << "no person looked at it";
}

TEST(Approval, ByARuleCountsForTheWholeQuorum) {
  Escalation e = asked();
  e.quorum = 3;
  approveByRule(e, "safe", kNow);
  EXPECT_EQ(e.status, EscalationStatus::kApproved);
  EXPECT_EQ(e.approvals(), 3U);
}

}  // namespace
}  // namespace cloister::policy

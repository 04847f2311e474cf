// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: versions of the policy document, and kept requests.
#pragma once

#include "base/crypto.h"
#include "store/rows/policies.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline NewPolicy policyOf(const std::string& document) {
  NewPolicy made;
  made.policy.name = "test";
  made.policy.document = document;
  made.policy.sha256 = base::sha256Hex(document);
  made.policy.origin = "api";
  made.policy.applied_by = admin();
  made.policy.applied_at = 7;
  made.policy.note = "because";
  return made;
}
inline Result<int64_t> put(Store& store, const NewPolicy& policy) {
  return commit(store, putPolicy, policy,
                {.action = "policy.applied", .subject = {}, .principal = admin(), .details = {}});
}

TEST_P(StoreSuite, NumbersPoliciesAndGivesThemBackByteForByte) {
  EXPECT_FALSE(*store_->policyVersion(0));
  const std::string odd("a\0b\xff", 4);
  EXPECT_EQ(put(*store_, policyOf("one")).value(), 1);
  NewPolicy second = policyOf(odd);
  second.policy.restores = 1;
  EXPECT_EQ(put(*store_, second).value(), 2);
  const auto newest = store_->policyVersion(0);
  ASSERT_TRUE(newest && *newest);
  EXPECT_EQ((*newest)->version, 2);
  EXPECT_EQ((*newest)->document, odd);
  EXPECT_EQ((*newest)->restores, 1);
  EXPECT_EQ((*newest)->note, "because");
  EXPECT_EQ((*newest)->applied_by.tenant, admin().tenant);
  EXPECT_EQ((*store_->policyVersion(1))->document, "one");
  EXPECT_FALSE(*store_->policyVersion(3));
  const auto list = store_->policyVersions({.limit = 1, .before = 0});
  ASSERT_EQ(list->size(), 1U);
  EXPECT_EQ(list->front().version, 2);
  EXPECT_EQ(list->front().document, "");
  EXPECT_EQ(store_->policyVersions({.limit = 5, .before = 2})->front().version, 1);
}

TEST_P(StoreSuite, APolicyAndItsAuditRowAreOne) {
  ASSERT_TRUE(put(*store_, policyOf("one")));
  const auto entries = store_->audit(all_, 0, 100);
  ASSERT_FALSE(entries->empty());
  const model::AuditEvent& event = entries->back().event;
  EXPECT_EQ(event.subject, "policy:1");
  EXPECT_EQ(event.details.at("version").to_number<int64_t>(), 1);
  EXPECT_EQ(event.details.at("sha256").as_string(), base::sha256Hex("one"));
  const size_t before = entries->size();
  NewPolicy late = policyOf("two");
  late.expected = 0;  // expects no policy, but a version exists
  const auto refused = put(*store_, late);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_EQ(store_->audit(all_, 0, 100)->size(), before);
  EXPECT_EQ((*store_->policyVersion(0))->version, 1);
  late.expected = 1;
  EXPECT_EQ(put(*store_, late).value(), 2);
}

TEST_P(StoreSuite, OldPoliciesGoAndTheirNumbersDoNotComeBack) {
  for (int i = 0; i < 4; ++i) {
    NewPolicy made = policyOf(std::to_string(i));
    made.keep = 2;
    ASSERT_TRUE(put(*store_, made));
  }
  const auto list = store_->policyVersions({.limit = 10, .before = 0});
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ(list->front().version, 4);
  EXPECT_EQ(list->back().version, 3);
  EXPECT_FALSE(*store_->policyVersion(1));
}

}  // namespace cloister::store

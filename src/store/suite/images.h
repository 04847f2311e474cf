// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: an image's digest, verified after executions ran on the image.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "store/image_digests.h"
#include "store/rows/image_bindings.h"
#include "store/suite/fixture.h"

namespace cloister::store {

namespace images {

inline constexpr int64_t kMade = 1'700'000'000'000'000;  // the sandboxes, at the earliest
inline const std::string kDigest = "sha256:" + std::string(64, 'a');

// An ended execution with a note of its unverified image.
inline std::string unverified(Store& store, const std::string& tenant, const std::string& place) {
  const auto execution = testing::finished(store, queued(tenant));
  EXPECT_TRUE(execution) << execution.error().message;
  EXPECT_TRUE(commit(store, noteUnverified, {execution->id, place, kMade}));
  return execution->id;
}

inline uint64_t bind(Store& store, const std::string& place, int64_t changed_at,
                     const std::vector<std::string>& changed = {"/usr/bin/a"}) {
  const auto bound = commit(store, bindImage,
                            {.place = place,
                             .digest = kDigest,
                             .node = "n",
                             .changed_at = changed_at,
                             .newest = "/usr/bin/b",
                             .changed = changed});
  EXPECT_TRUE(bound) << bound.error().message;
  return bound.value_or(0);
}

inline std::string digestOf(Store& store, const std::string& id) {
  return store.get(Scope::of(admin()), id)->provenance.image_digest;
}

}  // namespace images

TEST_P(StoreSuite, BindsADigestToThoseThatRanOnIt) {
  const std::string one = images::unverified(*store_, "acme", "p");
  const std::string two = images::unverified(*store_, "acme", "p");
  const std::string elsewhere = images::unverified(*store_, "acme", "q");
  const std::string verified = testing::finished(*store_, queued("acme"))->id;
  EXPECT_FALSE(store_->recorded(all_, one)->image);
  EXPECT_EQ(images::bind(*store_, "p", images::kMade - 1), 2U);
  EXPECT_EQ(images::bind(*store_, "p", images::kMade - 1), 0U);
  for (const std::string& id : {one, two}) {
    EXPECT_EQ(images::digestOf(*store_, id), images::kDigest);
    const auto recorded = store_->recorded(all_, id);
    ASSERT_TRUE(recorded) << recorded.error().message;
    ASSERT_TRUE(recorded->image);
    EXPECT_EQ(recorded->image->event.action, "image.verified");
    EXPECT_EQ(recorded->image->event.details.at("executions"), (base::json::array{one, two}));
    EXPECT_EQ(recorded->execution.provenance.image_digest, images::kDigest);
  }
  EXPECT_EQ(images::digestOf(*store_, elsewhere), "");
  EXPECT_EQ(images::digestOf(*store_, verified), "");
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
  for (const auto& listed : *store_->list(all_, ListQuery{}))
    EXPECT_EQ(listed.provenance.image_digest, images::digestOf(*store_, listed.id));
}

TEST_P(StoreSuite, EachEntryIsOfOneTenant) {
  const std::string ours = images::unverified(*store_, "acme", "p");
  const std::string theirs = images::unverified(*store_, "rival", "p");
  EXPECT_EQ(images::bind(*store_, "p", 0), 1U);
  EXPECT_EQ(images::bind(*store_, "p", 0), 1U);
  for (const auto& [tenant, id] : {std::pair("acme", ours), std::pair("rival", theirs)}) {
    const auto entries = store_->audit(Scope::of(principal(tenant)), 0, 100);
    ASSERT_TRUE(entries);
    EXPECT_EQ(entries->back().event.action, "image.verified");
    EXPECT_EQ(entries->back().event.details.at("executions"), (base::json::array{id}));
  }
}

TEST_P(StoreSuite, BindsNothingToThoseThatRanBeforeAChange) {
  const std::string id = images::unverified(*store_, "acme", "p");
  EXPECT_EQ(images::bind(*store_, "p", images::kMade), 1U);
  EXPECT_EQ(images::digestOf(*store_, id), "");
  EXPECT_FALSE(store_->recorded(all_, id)->image);
  const auto last = auditAll().back().event;
  EXPECT_EQ(last.action, "image.not_verified");
  EXPECT_EQ(last.details.at("executions"), (base::json::array{id}));
  EXPECT_EQ(last.details.at("changed"), (base::json::array{"/usr/bin/a"}));
  EXPECT_EQ(images::bind(*store_, "p", images::kMade - 1), 0U) << "it was let go";
}

TEST_P(StoreSuite, NamesWhatChangedLastWhereNothingElseIsKnown) {
  images::unverified(*store_, "acme", "p");
  EXPECT_EQ(images::bind(*store_, "p", images::kMade, {}), 1U);
  EXPECT_EQ(auditAll().back().event.details.at("changed"), (base::json::array{"/usr/bin/b"}));
}

TEST_P(StoreSuite, OneEntryHasABoundedNumber) {
  for (int i = 0; i < 310; ++i)
    images::unverified(*store_, "acme", "p");
  EXPECT_EQ(images::bind(*store_, "p", 0), 300U);
  EXPECT_EQ(images::bind(*store_, "p", 0), 10U);
  EXPECT_EQ(images::bind(*store_, "p", 0), 0U);
}

}  // namespace cloister::store

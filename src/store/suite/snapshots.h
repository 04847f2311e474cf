// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: snapshots, their shared chunks, and their size against the quota.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "store/rows/artifacts.h"
#include "store/rows/retention.h"
#include "store/rows/snapshots.h"
#include "store/suite/artifacts.h"

namespace cloister::store {

inline constexpr model::SnapshotQuota kSnapshotRoom{.snapshots = 3, .all = kRoom};

inline NewSnapshot snapshotOf(const std::string& id, std::vector<model::SnapshotChunk> chunks,
                              const std::string& tenant = "acme") {
  NewSnapshot made;
  made.snapshot.id = id;
  made.snapshot.tenant = tenant;
  made.snapshot.agent = "agent";
  made.snapshot.session_id = "ses_1";
  made.snapshot.name = "name \"of\" it";
  made.snapshot.metadata = {{"a", "b"}};
  made.snapshot.entries = 7;
  made.snapshot.bytes = 1ULL << 40;
  made.snapshot.chunks = 9;
  made.snapshot.manifest_bytes = 10;
  made.snapshot.sha256 = "manifest of " + id;
  made.snapshot.created_at = 5;
  made.chunks = std::move(chunks);
  return made;
}

inline Result<model::Snapshot> addTo(Store& store, const NewSnapshot& made,
                                     const model::SnapshotQuota& quota = kSnapshotRoom) {
  return testing::commit(store, addSnapshot, made, quota, about(made.snapshot.id));
}

inline Result<std::vector<model::BlobName>> removeSnapshotFrom(Store& store, const Scope& scope,
                                                               const std::string& id) {
  return testing::commit(store, removeSnapshot, scope, id, about(id));
}

inline std::vector<std::string> digestsOf(const std::vector<model::BlobName>& blobs) {
  std::vector<std::string> out;
  for (const auto& blob : blobs)
    out.push_back(blob.sha256);
  std::ranges::sort(out);
  return out;
}

TEST_P(StoreSuite, ASnapshotIsKeptAsItWasMade) {
  const auto made = addTo(*store_, snapshotOf("snap_1", {{"c1", 100}, {"c2", 50}}));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->added_bytes, 160U);
  const Scope own = Scope::of(testing::principal("acme"));
  const auto read = store_->snapshot(own, "snap_1");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(model::toJsonObject(*read) == model::toJsonObject(*made));
  EXPECT_EQ(read->name, "name \"of\" it");
  EXPECT_EQ(read->bytes, 1ULL << 40);
  const Scope theirs = Scope::of(testing::principal("rival"));
  EXPECT_EQ(store_->snapshot(theirs, "snap_1").error().code, Code::kNotFound);
  EXPECT_TRUE(store_->snapshots(theirs, {})->empty());
  EXPECT_EQ(store_->snapshots(own, {})->size(), 1U);
  EXPECT_EQ(removeSnapshotFrom(*store_, theirs, "snap_1").error().code, Code::kNotFound);
  EXPECT_EQ(store_->artifact(own, "snap_1").error().code, Code::kNotFound);
  EXPECT_TRUE(store_->artifacts(own, {})->empty());
  EXPECT_EQ(removeFrom(*store_, own, "snap_1").error().code, Code::kNotFound);
}

TEST_P(StoreSuite, ChunksCountOnceAndGoWithTheLastSnapshot) {
  ASSERT_TRUE(addTo(*store_, snapshotOf("snap_1", {{"c1", 100}, {"c2", 50}})));
  EXPECT_EQ(addTo(*store_, snapshotOf("snap_2", {{"c2", 50}, {"c3", 20}}))->added_bytes, 30U);
  EXPECT_EQ(addTo(*store_, snapshotOf("snap_3", {{"c2", 50}}, "rival"))->added_bytes, 60U);
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 190U);
  EXPECT_EQ(store_->artifactUsage("acme")->artifacts, 2U);
  EXPECT_EQ(store_->snapshotCount("acme").value(), 2U);
  EXPECT_TRUE(store_->isNamed({"acme", "c1"}).value());
  ASSERT_TRUE(addTo(*store_, upload("art_1", "acme", 1, "c3")));
  const Scope own = Scope::of(testing::principal("acme"));
  EXPECT_EQ(digestsOf(removeSnapshotFrom(*store_, own, "snap_1").value()),
            (std::vector<std::string>{"c1", "manifest of snap_1"}));
  EXPECT_FALSE(store_->isNamed({"acme", "c1"}).value());
  EXPECT_TRUE(store_->isNamed({"acme", "c2"}).value());
  EXPECT_EQ(digestsOf(removeSnapshotFrom(*store_, own, "snap_2").value()),
            (std::vector<std::string>{"c2", "manifest of snap_2"}))
      << "an artifact has the third";
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 1U);
  EXPECT_EQ(removeSnapshotFrom(*store_, own, "snap_2").error().code, Code::kNotFound);
}

TEST_P(StoreSuite, ASnapshotOverItsQuotaLeavesNothing) {
  ASSERT_TRUE(addTo(*store_, snapshotOf("snap_1", {{"c1", 900}})));
  const auto refused = addTo(*store_, snapshotOf("snap_2", {{"c1", 900}, {"c2", 90}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kQuota);
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 910U);
  EXPECT_FALSE(store_->isNamed({"acme", "c2"}).value());
  EXPECT_TRUE(addTo(*store_, snapshotOf("snap_2", {{"c1", 900}, {"c2", 80}})));
  EXPECT_EQ(addTo(*store_, upload("art_1", "acme", 1)).error().code, Code::kQuota);
  EXPECT_FALSE(addTo(*store_, snapshotOf("snap_3", {}),
                     {.snapshots = 2, .all = {.artifacts = 100, .bytes = 10'000}}));
}

TEST_P(StoreSuite, WhatANoteNamesIsCollectedUnlessItIsUsed) {
  const auto note = [&](const std::string& sha256) {
    return testing::commit(*store_, noteBlob, {"acme", sha256});
  };
  ASSERT_TRUE(note("lost"));
  ASSERT_TRUE(note("used"));
  ASSERT_TRUE(addTo(*store_, snapshotOf("snap_1", {{"used", 1}})));
  const auto collected = testing::commit(*store_, retain, {});
  ASSERT_TRUE(collected);
  EXPECT_EQ(digestsOf(collected->blobs), std::vector<std::string>{"lost"});
}

TEST_P(StoreSuite, SnapshotsGoWithTheirAgeAndTheirTenant) {
  NewSnapshot brief = snapshotOf("snap_1", {{"c1", 1}});
  brief.snapshot.expires_at = 1;
  ASSERT_TRUE(addTo(*store_, brief));
  ASSERT_TRUE(addTo(*store_, snapshotOf("snap_2", {{"c2", 1}})));
  const Scope own = Scope::of(testing::principal("acme"));
  EXPECT_EQ(store_->snapshot(own, "snap_1").error().code, Code::kNotFound);
  const auto collected = testing::commit(*store_, retain, {});
  EXPECT_EQ(digestsOf(collected->blobs), (std::vector<std::string>{"c1", "manifest of snap_1"}));
  ASSERT_TRUE(testing::commit(*store_, removeArtifacts, "acme", about("x")));
  EXPECT_TRUE(store_->snapshots(own, {})->empty());
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 0U);
  EXPECT_FALSE(store_->isNamed({"acme", "c2"}).value());
}

}  // namespace cloister::store

// SPDX-License-Identifier: Apache-2.0
// Part of store_suite.h: artifacts, their quota, their expiry, and their blobs.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "store/rows/artifacts.h"
#include "store/suite/fixture.h"

namespace cloister::store {

inline constexpr model::ArtifactQuota kRoom{.artifacts = 100, .bytes = 1'000};

inline model::Artifact upload(const std::string& id, const std::string& tenant = "acme",
                              uint64_t size = 10, const std::string& sha256 = "digest") {
  return {.ref = {.id = id,
                  .path = "a/b.txt",
                  .size = size,
                  .content_type = "text/plain",
                  .sha256 = sha256},
          .tenant = tenant,
          .agent = "agent",
          .execution_id = "",
          .created_at = 5};
}

inline model::AuditEvent about(const std::string& id) {
  return {.action = "artifact.noted",
          .subject = id,
          .principal = testing::principal("acme"),
          .details = {}};
}

inline Result<> addTo(Store& store, const model::Artifact& artifact,
                      const model::ArtifactQuota& quota = kRoom) {
  return testing::commit(store, addArtifact, artifact, quota, about(artifact.ref.id));
}

inline Result<std::vector<model::BlobName>> removeFrom(Store& store, const Scope& scope,
                                                       const std::string& id) {
  return testing::commit(store, removeArtifact, scope, id, about(id));
}

TEST_P(StoreSuite, AnUploadIsAnArtifactOfItsTenant) {
  ASSERT_TRUE(addTo(*store_, upload("art_1")));
  const Scope own = Scope::of(testing::principal("acme"));
  const auto read = store_->artifact(own, "art_1");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->ref.path, "a/b.txt");
  EXPECT_EQ(read->ref.size, 10U);
  EXPECT_EQ(read->ref.sha256, "digest");
  EXPECT_EQ(read->tenant, "acme");
  EXPECT_EQ(read->execution_id, "");
  EXPECT_EQ(read->created_at, 5);
  EXPECT_TRUE(store_->isNamed({"acme", "digest"}).value());
  EXPECT_FALSE(store_->isNamed({"rival", "digest"}).value());
  const Scope theirs = Scope::of(testing::principal("rival"));
  EXPECT_EQ(store_->artifact(theirs, "art_1").error().code, Code::kNotFound);
  EXPECT_TRUE(store_->artifacts(theirs, {})->empty());
  EXPECT_EQ(removeFrom(*store_, theirs, "art_1").error().code, Code::kNotFound);
  EXPECT_EQ(auditAll().back().event.subject, "art_1");
}

TEST_P(StoreSuite, ListsArtifactsNewestFirstInPages) {
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(addTo(*store_, upload("art_" + std::to_string(i))));
  ASSERT_TRUE(addTo(*store_, upload("art_9", "rival")));
  const Scope own = Scope::of(testing::principal("acme"));
  std::string seen;
  std::string before;
  for (int page = 0; page < 4; ++page) {
    for (const auto& each : store_->artifacts(own, {.limit = 2, .before_id = before}).value()) {
      seen += each.ref.id.back();
      before = each.ref.id;
    }
  }
  EXPECT_EQ(seen, "43210");
  EXPECT_EQ(store_->artifacts(all_, {.limit = 1, .before_id = ""})->front().ref.id, "art_9");
}

TEST_P(StoreSuite, RemovingTheLastArtifactOfABlobFreesIt) {
  ASSERT_TRUE(addTo(*store_, upload("art_1")));
  ASSERT_TRUE(addTo(*store_, upload("art_2")));
  ASSERT_TRUE(addTo(*store_, upload("art_3", "rival")));
  EXPECT_TRUE(removeFrom(*store_, all_, "art_1")->empty());
  const auto freed = removeFrom(*store_, all_, "art_2");
  ASSERT_TRUE(freed) << freed.error().message;
  EXPECT_EQ(*freed, (std::vector<model::BlobName>{{"acme", "digest"}}));
  EXPECT_EQ(removeFrom(*store_, all_, "art_2").error().code, Code::kNotFound);
  EXPECT_TRUE(store_->artifact(all_, "art_3"));
}

TEST_P(StoreSuite, AQuotaBoundsCountAndBytesOfATenant) {
  const model::ArtifactQuota quota{.artifacts = 2, .bytes = 30};
  ASSERT_TRUE(addTo(*store_, upload("art_1", "acme", 10), quota));
  EXPECT_EQ(addTo(*store_, upload("art_2", "acme", 21), quota).error().code, Code::kQuota);
  ASSERT_TRUE(addTo(*store_, upload("art_2", "acme", 20), quota));
  EXPECT_EQ(addTo(*store_, upload("art_3", "acme", 0), quota).error().code, Code::kQuota);
  ASSERT_TRUE(addTo(*store_, upload("art_4", "rival", 30), quota));
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 30U);
  EXPECT_EQ(store_->artifactUsage("acme")->artifacts, 2U);
  ASSERT_TRUE(removeFrom(*store_, all_, "art_1"));
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 20U);
  ASSERT_TRUE(addTo(*store_, upload("art_3", "acme", 10), quota));
  EXPECT_EQ(store_->artifactUsage("nobody")->artifacts, 0U);
}

TEST_P(StoreSuite, ArtifactsOfExecutionsCountAndGoWithThem) {
  model::Execution e = accept(*store_, testing::queued()).value().execution;
  e.status = model::Status::kFailed;
  e.finished_at = 1'000'000;
  e.artifacts = {upload("art_1", "acme", 7).ref, upload("art_2", "acme", 5).ref};
  ASSERT_TRUE(testing::update(*store_, e));
  EXPECT_EQ(store_->artifact(all_, "art_1")->execution_id, e.id);
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 12U);
  ASSERT_TRUE(removeFrom(*store_, all_, "art_2"));
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 7U);
  EXPECT_EQ(testing::retain(*store_, {.delete_after_us = 1'000'000})->deleted, 1U);
  EXPECT_EQ(store_->artifactUsage("acme")->bytes, 0U);
  EXPECT_EQ(store_->artifactUsage("acme")->artifacts, 0U);
}

TEST_P(StoreSuite, WhatExpiredIsGoneAtOnceAndCollectedLater) {
  model::Artifact past = upload("art_1");
  past.ref.expires_at = base::wallMicros() - 1;
  model::Artifact future = upload("art_2", "acme", 10, "other");
  future.ref.expires_at = INT64_C(4'000'000'000'000'000);
  ASSERT_TRUE(addTo(*store_, past));
  ASSERT_TRUE(addTo(*store_, future));
  EXPECT_EQ(store_->artifact(all_, "art_1").error().code, Code::kNotFound);
  EXPECT_EQ(store_->artifacts(all_, {})->size(), 1U);
  const auto done = testing::retain(*store_, {});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->artifacts, 1U);
  EXPECT_EQ(done->blobs, (std::vector<model::BlobName>{{"acme", "digest"}}));
  EXPECT_EQ(testing::retain(*store_, {})->artifacts, 0U);
  EXPECT_EQ(testing::retain(*store_, {})->blobs, done->blobs) << "it may not be removed yet";
  EXPECT_TRUE(testing::retain(*store_, {.removed = done->blobs})->blobs.empty());
  EXPECT_EQ(store_->artifact(all_, "art_2")->ref.expires_at, future.ref.expires_at);
}

TEST_P(StoreSuite, ABlobThatIsNamedAgainIsNotFree) {
  ASSERT_TRUE(addTo(*store_, upload("art_1")));
  ASSERT_EQ(removeFrom(*store_, all_, "art_1")->size(), 1U);
  EXPECT_EQ(testing::retain(*store_, {})->blobs.size(), 1U);
  ASSERT_TRUE(addTo(*store_, upload("art_2")));
  EXPECT_TRUE(testing::retain(*store_, {})->blobs.empty());
}

TEST_P(StoreSuite, RemovesAllArtifactsOfATenant) {
  ASSERT_TRUE(addTo(*store_, upload("art_1")));
  ASSERT_TRUE(addTo(*store_, upload("art_2")));
  ASSERT_TRUE(addTo(*store_, upload("art_3", "rival")));
  const auto removed = testing::commit(*store_, removeArtifacts, "acme", about("acme"));
  EXPECT_EQ(removed.value(), 2U);
  EXPECT_EQ(store_->artifacts(all_, {})->size(), 1U);
  EXPECT_EQ(store_->artifactUsage("acme")->artifacts, 0U);
}

}  // namespace cloister::store

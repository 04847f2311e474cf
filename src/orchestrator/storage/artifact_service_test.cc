// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/artifact_service.h"

#include "orchestrator/runs/service_fixture.h"

namespace cloister::orchestrator {
namespace {

class ArtifactServiceTest : public ServiceTest {
 protected:
  void SetUp() override {
    open();
    make({.max_bytes = 1000, .quota = {.artifacts = 3, .bytes = 1500}, .ttl_us = 0, .uploads = 2});
  }
  void TearDown() override {
    background_.join();
    service.reset();
  }
  void make(const ArtifactConfig& config) {
    service.emplace(control_, *keeper_, *keyring_, config);
  }
  Result<model::Artifact> put(const std::string& path, const std::string& bytes,
                              const std::string& tenant = "acme", int64_t ttl_us = 0) {
    auto upload =
        TRY(service->begin(principal(tenant), {.path = path, .ttl_us = ttl_us, .size = {}}));
    TRY(await(service->write(upload, bytes)));
    return await(service->finish(std::move(upload)));
  }
  Result<> remove(const std::string& id, const std::string& tenant = "acme") {
    return await(service->remove(principal(tenant), id));
  }
  // Files that are not keys.
  size_t files() const {
    size_t n = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ + "/blobs"))
      n += entry.is_regular_file() && entry.path().filename() != "key" ? 1 : 0;
    return n;
  }

  std::optional<ArtifactService> service;
};

TEST_F(ArtifactServiceTest, KeepsAnUploadAndItsAuditRow) {
  const auto artifact = put("dir/plot.png", "\x89PNG\r\n\x1a\nrest");
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(artifact->ref.content_type, "image/png");
  EXPECT_EQ(artifact->ref.size, 12U);
  const auto got = service->get(principal(), artifact->ref.id);
  ASSERT_TRUE(got);
  const auto reader = await(service->open(*got));
  ASSERT_TRUE(reader);
  EXPECT_EQ(await(service->read(*reader, 8, 100)).value(), "rest");
  EXPECT_EQ(auditOf(artifact->ref.id), std::vector<std::string>{"artifact.created"});
  EXPECT_EQ(service->get(principal("other"), artifact->ref.id).error().code, Code::kNotFound);
  EXPECT_EQ(remove(artifact->ref.id, "other").error().code, Code::kNotFound);
  EXPECT_EQ(files(), 1U);
  ASSERT_TRUE(remove(artifact->ref.id));
  EXPECT_EQ(files(), 0U);
  EXPECT_EQ(auditOf(artifact->ref.id).back(), "artifact.deleted");
}

TEST_F(ArtifactServiceTest, RefusesNamesThatAreNotPlainPaths) {
  for (const std::string path : {"", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "a\nb",
                                 "a\x7f", "\xff", "a\xe2\x80\xae"}) {
    const auto refused = put(path, "x");
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().field, "query.path");
  }
  EXPECT_FALSE(put(std::string(1025, 'x'), "x"));
  EXPECT_TRUE(put(std::string(1024, 'x'), "x"));
}

TEST_F(ArtifactServiceTest, HoldsUploadsTogetherToTheQuota) {
  const auto begin = [&](const std::string& tenant) {
    return service->begin(principal(tenant), {.path = "a", .ttl_us = 0, .size = {}});
  };
  auto first = begin("acme");
  auto second = begin("acme");
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(await(service->write(*first, std::string(1000, 'a'))));
  ASSERT_TRUE(await(service->write(*second, std::string(500, 'b'))));
  EXPECT_EQ(await(service->write(*second, "b")).error().code, Code::kQuota);
  first->reset();
  EXPECT_TRUE(put("c", std::string(1000, 'c'), "other")) << "the quota is a tenant's";
  ASSERT_TRUE(await(service->write(*second, std::string(500, 'b')))) << "the first has gone";
  ASSERT_TRUE(await(service->finish(*second)));
}

TEST_F(ArtifactServiceTest, HoldsToItsBounds) {
  EXPECT_EQ(put("a", std::string(1001, 'x')).error().code, Code::kTooLarge);
  ASSERT_TRUE(put("a", std::string(1000, 'a')));
  EXPECT_EQ(put("b", std::string(501, 'b')).error().code, Code::kTooLarge) << "the quota's rest";
  const NewArtifact known{.path = "b", .ttl_us = 0, .size = 501};
  EXPECT_EQ(service->begin(principal(), known).error().code, Code::kQuota) << "before it is sent";
  ASSERT_TRUE(put("b", std::string(500, 'b')));
  ASSERT_TRUE(put("c", "", "other"));
  ASSERT_TRUE(put("c", ""));
  EXPECT_EQ(put("d", "").error().code, Code::kQuota);
  EXPECT_EQ(files(), 4U);
}

TEST_F(ArtifactServiceTest, BoundsUploadsAtOnce) {
  auto first = service->begin(principal(), {.path = "a", .ttl_us = 0, .size = {}});
  auto second = service->begin(principal(), {.path = "b", .ttl_us = 0, .size = {}});
  ASSERT_TRUE(first && second);
  const auto third = service->begin(principal(), {.path = "c", .ttl_us = 0, .size = {}});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kQuota);
  EXPECT_GT(third.error().retry_after_seconds, 0);
  first->reset();
  EXPECT_TRUE(service->begin(principal(), {.path = "c", .ttl_us = 0, .size = {}}));
}

TEST_F(ArtifactServiceTest, NoTenantTakesAllTheirPlaces) {
  make({.max_bytes = 1000,
        .quota = {.artifacts = 3, .bytes = 1500},
        .ttl_us = 0,
        .uploads = 2,
        .uploads_per_tenant = 1});
  const auto first = service->begin(principal(), {.path = "a", .ttl_us = 0, .size = {}});
  ASSERT_TRUE(first);
  const auto second = service->begin(principal(), {.path = "b", .ttl_us = 0, .size = {}});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("artifacts.uploads_per_tenant"), std::string::npos);
  EXPECT_TRUE(service->begin(principal("other"), {.path = "a", .ttl_us = 0, .size = {}}));
}

TEST_F(ArtifactServiceTest, WhatTheLedgerRefusesLeavesNothing) {
  ASSERT_TRUE(put("a", "kept"));
  store_->full = true;
  EXPECT_EQ(put("b", "lost").error().code, Code::kNoSpace);
  EXPECT_EQ(put("c", "kept").error().code, Code::kNoSpace);
  store_->full = false;
  EXPECT_EQ(files(), 1U) << "and not the blob that another artifact has";
}

TEST_F(ArtifactServiceTest, AnAbandonedUploadLeavesNothing) {
  {
    const auto upload = service->begin(principal(), {.path = "a", .ttl_us = 0, .size = {}}).value();
    ASSERT_TRUE(await(service->write(upload, "half")));
  }
  EXPECT_EQ(files(), 0U);
  EXPECT_TRUE(service->list(principal(), {})->empty());
}

TEST_F(ArtifactServiceTest, TakesTheShorterTimeToLive) {
  make({.max_bytes = 1000, .quota = {.artifacts = 9, .bytes = 1500}, .ttl_us = 1000, .uploads = 2});
  for (const auto& [wanted, ttl] : {std::pair{0, 1000}, {10, 10}, {2000, 1000}}) {
    const auto artifact = put("a", "x", "acme", wanted);
    ASSERT_TRUE(artifact);
    EXPECT_EQ(artifact->ref.expires_at, artifact->created_at + ttl);
  }
}

TEST_F(ArtifactServiceTest, ALinkOpensOneArtifactForATime) {
  const auto artifact = put("a", "x").value();
  const auto other = put("b", "y").value();
  const int64_t soon = base::wallMicros() / 1'000'000 + 100;
  const std::string key = putKey();
  const std::string signature = service->sign(artifact, soon, key).value();
  EXPECT_EQ(service->verify(artifact.ref.id, soon, key, signature)->ref.id, artifact.ref.id);
  const auto refused = [&](const std::string& id, int64_t expires, const std::string& made_with,
                           const std::string& with,
                           std::string_view why = "the link is not one that was made here") {
    const auto found = service->verify(id, expires, made_with, with);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::kUnauthorized);
    EXPECT_TRUE(found.error().message.starts_with(why)) << found.error().message;
  };
  refused(other.ref.id, soon, key, signature);
  refused(artifact.ref.id, soon + 1, key, signature);
  refused(artifact.ref.id, soon, "key_another", signature);
  refused(artifact.ref.id, soon, key, "");
  refused(base::newId("art"), soon, key, signature);
  refused(artifact.ref.id, 1, key, service->sign(artifact, 1, key).value(), "the link has expired");
  const std::string revoked = putKey(1);
  refused(artifact.ref.id, soon, revoked, service->sign(artifact, soon, revoked).value(),
          "the link was made with a credential that is expired or revoked");
  ASSERT_TRUE(remove(artifact.ref.id));
  refused(artifact.ref.id, soon, key, signature);
}

TEST_F(ArtifactServiceTest, ForgettingATenantLeavesNothingOfIt) {
  const auto artifact = put("a", "x").value();
  const auto other = put("a", "x", "other").value();
  EXPECT_EQ(await(service->forget(principal("ops"), "acme")).value(), 1U);
  EXPECT_EQ(service->get(principal(), artifact.ref.id).error().code, Code::kNotFound);
  EXPECT_FALSE(await(blobs_->open(artifact.blob())));
  EXPECT_EQ(contentOf(other), "x");
  EXPECT_EQ(auditOf("acme"), std::vector<std::string>{"artifact.key_destroyed"});
  EXPECT_TRUE(put("a", "x"));
}

}  // namespace
}  // namespace cloister::orchestrator

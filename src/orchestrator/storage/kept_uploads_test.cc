// SPDX-License-Identifier: Apache-2.0
// Uploads that break off and are resumed.
#include "orchestrator/storage/kept_uploads.h"

#include <gmock/gmock.h>

#include "orchestrator/runs/service_fixture.h"
#include "orchestrator/storage/artifact_service.h"

namespace cloister::orchestrator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class KeptUploadsTest : public ServiceTest {
 protected:
  using UploadPtr = std::shared_ptr<ArtifactService::Upload>;

  void SetUp() override {
    open();
    make({});
  }
  void TearDown() override {
    background_.join();
    service.reset();
  }
  void make(KeptBounds kept, model::ArtifactQuota quota = {.artifacts = 100, .bytes = 10'000}) {
    service.emplace(
        control_, *keeper_, *keyring_,
        ArtifactConfig{
            .max_bytes = 5'000, .quota = quota, .ttl_us = 0, .uploads = 8, .kept = kept});
  }
  Result<UploadPtr> begin(const std::string& name, std::optional<uint64_t> offset = {},
                          const std::string& tenant = "acme", const std::string& sha256 = "") {
    NewArtifact wanted{.path = "file", .ttl_us = 0, .size = {}, .upload = name, .offset = offset};
    wanted.sha256 = sha256;
    return service->begin(principal(tenant), std::move(wanted));
  }
  // Sends bytes, and then breaks the connection.
  void breakOff(const std::string& name, const std::string& bytes,
                std::optional<uint64_t> offset = {}, const std::string& tenant = "acme") {
    const auto upload = begin(name, offset, tenant);
    ASSERT_TRUE(upload) << upload.error().message;
    const auto written = await(service->write(*upload, bytes));
    ASSERT_TRUE(written) << written.error().message;
  }
  Result<model::Artifact> end(const std::string& name, const std::string& bytes,
                              std::optional<uint64_t> offset = {}, const std::string& sha256 = "") {
    auto upload = TRY(begin(name, offset, "acme", sha256));
    if (!bytes.empty()) TRY(await(service->write(upload, bytes)));
    return await(service->finish(std::move(upload)));
  }
  std::vector<std::string> kept(const std::string& tenant = "acme") {
    std::vector<std::string> names;
    for (const UploadState& upload : service->uploads(principal(tenant)))
      names.push_back(upload.name);
    return names;
  }
  uint64_t sizeOf(const std::string& name) { return service->upload(principal(), name)->size; }
  size_t files() const {
    size_t n = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ + "/blobs"))
      n += entry.is_regular_file() && entry.path().filename() != "key" ? 1 : 0;
    return n;
  }

  std::optional<ArtifactService> service;
};

TEST_F(KeptUploadsTest, OneThatBreaksOffGoesOnWhereItWas) {
  breakOff("mine", "one");
  EXPECT_EQ(sizeOf("mine"), 3U);
  EXPECT_GT(service->upload(principal(), "mine")->expires_at, base::wallMicros());
  breakOff("mine", "two", 3);
  EXPECT_EQ(sizeOf("mine"), 6U);
  const auto artifact = end("mine", "three", 6, base::sha256Hex("onetwothree"));
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(contentOf(*artifact), "onetwothree");
  EXPECT_EQ(artifact->ref.size, 11U);
  EXPECT_EQ(artifact->ref.path, "file");
  EXPECT_EQ(auditOf(artifact->ref.id), std::vector<std::string>{"artifact.created"});
  EXPECT_EQ(files(), 1U);
}

TEST_F(KeptUploadsTest, WithoutANameNothingIsKept) {
  {
    const auto upload = service->begin(principal(), {.path = "file", .ttl_us = 0, .size = {}});
    ASSERT_TRUE(await(service->write(*upload, "half")));
  }
  EXPECT_EQ(files(), 0U);
  EXPECT_TRUE(kept().empty());
}

TEST_F(KeptUploadsTest, GoesOnOnlyWhereItEnds) {
  breakOff("mine", "three");
  for (const uint64_t offset : {0U, 4U, 6U}) {
    const auto refused = begin("mine", offset);
    ASSERT_FALSE(refused) << offset;
    EXPECT_EQ(refused.error().code, Code::kConflict);
    EXPECT_EQ(refused.error().field, "query.offset");
    EXPECT_THAT(refused.error().message, HasSubstr("ends at 5"));
  }
  EXPECT_EQ(begin("other", 5).error().code, Code::kNotFound);
  EXPECT_EQ(begin("mine", 5, "rival").error().code, Code::kNotFound);
  EXPECT_EQ(begin("", 5).error().field, "query.offset");
  const NewArtifact elsewhere{
      .path = "other", .ttl_us = 0, .size = {}, .upload = "mine", .offset = 5};
  EXPECT_EQ(service->begin(principal(), elsewhere).error().field, "query.path");
  EXPECT_EQ(contentOf(end("mine", "", 5).value()), "three") << "none of that harmed it";
  EXPECT_EQ(contentOf(end("new", "x", 0).value()), "x") << "0 may make it";
}

TEST_F(KeptUploadsTest, WithoutAnOffsetItBeginsAgain) {
  breakOff("mine", "first");
  EXPECT_EQ(contentOf(end("mine", "second").value()), "second");
  EXPECT_EQ(files(), 1U);
}

TEST_F(KeptUploadsTest, RefusesNamesThatAreNoPartOfAPath) {
  for (const std::string& name : {std::string("."), std::string(".x"), std::string("a/b"),
                                  std::string("a b"), std::string("\xff"), std::string(65, 'x')})
    EXPECT_EQ(begin(name).error().field, "query.upload") << name;
  EXPECT_TRUE(begin(std::string(64, 'x')));
  EXPECT_TRUE(begin("A-z_0.9"));
}

TEST_F(KeptUploadsTest, AnotherDigestIsRefusedAndLeavesNothing) {
  EXPECT_EQ(begin("mine", {}, "acme", "ABC").error().field, "query.sha256");
  const auto refused = end("mine", "bytes", {}, base::sha256Hex("others"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_EQ(refused.error().field, "query.sha256");
  EXPECT_EQ(files(), 0U);
  EXPECT_TRUE(kept().empty());
  EXPECT_TRUE(service->list(principal(), {})->empty());
}

// A client may come back before the server notices the end of its connection.
TEST_F(KeptUploadsTest, WhoComesBackTakesOver) {
  UploadPtr first;
  first = service
              ->begin(principal(), {.path = "file",
                                    .ttl_us = 0,
                                    .size = {},
                                    .upload = "mine",
                                    .offset = {},
                                    .sha256 = {},
                                    .stop = [&] { first.reset(); }})
              .value();
  ASSERT_TRUE(await(service->write(first, "half")));
  EXPECT_EQ(sizeOf("mine"), 4U);
  EXPECT_EQ(service->upload(principal(), "mine")->expires_at, 0) << "it is being sent";
  EXPECT_EQ(begin("mine", 4).error().field, "query.upload");
  ASSERT_TRUE(await(service->interrupt(principal(), "mine")));
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(contentOf(end("mine", "more", 4).value()), "halfmore");
}

TEST_F(KeptUploadsTest, ItsEndIsRememberedForWhoDidNotHear) {
  const auto artifact = end("mine", "whole").value();
  EXPECT_EQ(service->upload(principal(), "mine")->artifact_id, artifact.ref.id);
  EXPECT_EQ(sizeOf("mine"), 5U);
  EXPECT_EQ(end("mine", "", 5)->ref.id, artifact.ref.id);
  EXPECT_EQ(end("mine", "x", 5).error().code, Code::kConflict);
  EXPECT_EQ(begin("mine", 4).error().code, Code::kConflict);
  EXPECT_EQ(service->list(principal(), {})->size(), 1U);
}

TEST_F(KeptUploadsTest, TheOldestGivesWay) {
  make({.all = 4, .per_tenant = 2, .bytes_per_tenant = 100});
  breakOff("a", "1");
  breakOff("b", "2");
  breakOff("c", "3");
  EXPECT_THAT(kept(), ElementsAre("b", "c"));
  breakOff("b", std::string(80, 'x'), 1);  // so "b" is the newest
  EXPECT_THAT(kept(), ElementsAre("b", "c"));
  breakOff("d", std::string(30, 'x'));
  EXPECT_THAT(kept(), ElementsAre("d")) << "of bytes there is room for one";
  breakOff("e", std::string(101, 'x'));
  EXPECT_TRUE(kept().empty()) << "no room for that at all";
  for (const std::string tenant : {"t1", "t2", "t3"}) {
    breakOff("a", "1", {}, tenant);
    breakOff("b", "1", {}, tenant);
  }
  EXPECT_TRUE(kept("t1").empty()) << "four of all tenants";
  EXPECT_THAT(kept("t2"), ElementsAre("a", "b"));
  EXPECT_EQ(files(), 4U);
  make({.per_tenant = 0});
  breakOff("a", "1");
  EXPECT_TRUE(kept().empty()) << "0: none is kept";
}

// An agent's uploads do not give way to an agent that keeps more.
TEST_F(KeptUploadsTest, WhoKeepsTheMostGivesWay) {
  make({.per_tenant = 3, .bytes_per_tenant = 100});
  const auto of = [](const std::string& agent) {
    model::Principal who = principal();
    who.agent = agent;
    return who;
  };
  const auto breakOffOf = [&](const std::string& agent, const std::string& name, size_t bytes) {
    const auto upload =
        service->begin(of(agent), {.path = "f", .ttl_us = 0, .size = {}, .upload = name});
    ASSERT_TRUE(upload) << upload.error().message;
    ASSERT_TRUE(await(service->write(*upload, std::string(bytes, 'x'))));
  };
  const auto keptOf = [&](const std::string& agent) {
    std::vector<std::string> names;
    for (const UploadState& upload : service->uploads(of(agent)))
      names.push_back(upload.name);
    return names;
  };
  breakOffOf("alice", "first", 10);
  for (const char* name : {"a", "b", "c"})
    breakOffOf("bob", name, 10);
  EXPECT_THAT(keptOf("alice"), ElementsAre("first"));
  EXPECT_THAT(keptOf("bob"), ElementsAre("b", "c"));
  breakOffOf("bob", "d", 85);
  EXPECT_THAT(keptOf("alice"), ElementsAre("first"));
  EXPECT_THAT(keptOf("bob"), ElementsAre("d"));
}

TEST_F(KeptUploadsTest, TheyGoWithAge) {
  make({.ttl = Millis(20)});
  breakOff("mine", "half");
  EXPECT_EQ(files(), 1U);
  runUntil([&] { return kept().empty(); });
  EXPECT_EQ(files(), 0U);
  EXPECT_EQ(keeper_->unnamed("acme").artifacts, 0U);
}

TEST_F(KeptUploadsTest, TheyCountForTheQuota) {
  make({}, {.artifacts = 3, .bytes = 100});
  breakOff("a", std::string(60, 'x'));
  const auto refused = service->begin(principal(), {.path = "b", .ttl_us = 0, .size = 41});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kQuota);
  EXPECT_THAT(refused.error().message, HasSubstr("broke off"));
  const model::ArtifactQuota left = keeper_->without("acme", {.artifacts = 3, .bytes = 100});
  EXPECT_EQ(left.artifacts, 2U);
  EXPECT_EQ(left.bytes, 40U);
  EXPECT_EQ(end("b", std::string(41, 'x')).error().code, Code::kTooLarge);
  EXPECT_TRUE(end("a", std::string(40, 'x'), 60)) << "its own bytes are no hindrance";
  EXPECT_EQ(keeper_->unnamed("acme").bytes, 0U);
}

TEST_F(KeptUploadsTest, CanBeDropped) {
  breakOff("mine", "half");
  EXPECT_EQ(await(service->dropUpload(principal("rival"), "mine")).error().code, Code::kNotFound);
  ASSERT_TRUE(await(service->dropUpload(principal(), "mine")));
  EXPECT_EQ(files(), 0U);
  EXPECT_EQ(service->upload(principal(), "mine").error().code, Code::kNotFound);
  EXPECT_EQ(await(service->dropUpload(principal(), "mine")).error().code, Code::kNotFound);
}

TEST_F(KeptUploadsTest, WhatFailsIsNotKept) {
  {
    const auto upload = begin("mine").value();
    EXPECT_EQ(await(service->write(upload, std::string(5'001, 'x'))).error().code, Code::kTooLarge);
  }
  EXPECT_TRUE(kept().empty());
  store_->full = true;
  EXPECT_EQ(end("mine", "x").error().code, Code::kNoSpace);
  store_->full = false;
  EXPECT_TRUE(kept().empty());
  EXPECT_EQ(files(), 0U);
}

TEST_F(KeptUploadsTest, GoWithTheirTenantsKey) {
  breakOff("mine", "half");
  const auto sent = begin("sent").value();
  ASSERT_TRUE(await(service->write(sent, "half")));
  ASSERT_TRUE(await(service->forget(principal("ops"), "acme")));
  EXPECT_THAT(kept(), ElementsAre("sent"));
  EXPECT_FALSE(await(service->finish(sent)));
}

TEST_F(KeptUploadsTest, ARestartLeavesNothingOfThem) {
  breakOff("mine", "half");
  const std::string copy = dir_ + "/copy";
  std::filesystem::copy(dir_ + "/blobs", copy, std::filesystem::copy_options::recursive);
  background_.join();
  service.reset();
  close();
  std::filesystem::remove_all(dir_ + "/blobs");
  std::filesystem::rename(copy, dir_ + "/blobs");  // the state after a killed process
  EXPECT_EQ(files(), 1U);
  open();
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace cloister::orchestrator

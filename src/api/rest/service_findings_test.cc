// SPDX-License-Identifier: Apache-2.0
#include "api/rest/service_findings.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::api {
namespace {

using State = model::Finding::State;
using ::testing::HasSubstr;

constexpr int64_t kDay = int64_t{86'400} * 1'000'000;
constexpr uint64_t kGiB = uint64_t{1} << 30;

ServiceFacts well() {
  ServiceFacts facts;
  facts.now = 1000 * kDay;
  facts.node_connected = true;
  facts.disk_bytes = 100 * kGiB;
  facts.disk_free = 50 * kGiB;
  facts.egress_connected = true;
  return facts;
}

model::Finding findingIn(const ServiceFacts& facts, std::string_view name) {
  for (const model::Finding& each : serviceFindings(facts)) {
    EXPECT_EQ(each.state == State::kOk, each.remedy.empty()) << each.name;
    if (each.name == name) return each;
  }
  ADD_FAILURE() << "no finding " << name;
  return {};
}

TEST(ServiceFindings, AreAllWell) {
  const auto all = serviceFindings(well());
  EXPECT_EQ(all.size(), 4U) << "nothing about a certificate, a pool or losses";
  EXPECT_TRUE(std::ranges::all_of(all, [](const auto& each) { return each.state == State::kOk; }));
}

TEST(ServiceFindings, OfANodeAndOfEgress) {
  ServiceFacts facts = well();
  facts.node_connected = false;
  facts.egress_connected = false;
  EXPECT_EQ(findingIn(facts, "node").state, State::kMissing);
  EXPECT_EQ(findingIn(facts, "egress").state, State::kMissing);
  EXPECT_EQ(findingIn(facts, "ledger").state, State::kOk) << "only the node is missing";
}

TEST(ServiceFindings, OfTheBucket) {
  ServiceFacts facts = well();
  facts.bucket = Result<>{};
  EXPECT_EQ(findingIn(facts, "artifacts.s3").state, State::kOk);
  facts.bucket = fail(Code::kInvalid, "looking at the bucket x: HTTP status 403");
  EXPECT_EQ(findingIn(facts, "artifacts.s3").state, State::kMissing);
  EXPECT_THAT(findingIn(facts, "artifacts.s3").detail, HasSubstr("403"));
}

TEST(ServiceFindings, OfTheLedgerAndTheLog) {
  ServiceFacts facts = well();
  facts.ready = fail(Code::kUnavailable, "the service is stopping");
  EXPECT_EQ(findingIn(facts, "ledger").state, State::kReduced);
  facts.ledger = fail(Code::kNoSpace, "disk full");
  EXPECT_EQ(findingIn(facts, "ledger").state, State::kMissing);
  facts.audit_losses = "entries 3 to 4 are lost";
  EXPECT_THAT(findingIn(facts, "log").remedy, HasSubstr("audit verify"));
}

TEST(ServiceFindings, OfTheDisk) {
  ServiceFacts facts = well();
  const auto with = [&](uint64_t bytes, uint64_t free) {
    facts.disk_bytes = bytes;
    facts.disk_free = free;
    return findingIn(facts, "disk").state;
  };
  EXPECT_EQ(with(100 * kGiB, 2 * kGiB), State::kOk) << "some gigabytes";
  EXPECT_EQ(with(2 * kGiB, kGiB / 2), State::kOk) << "a quarter of a small disk";
  EXPECT_EQ(with(100 * kGiB, kGiB / 2), State::kReduced);
  EXPECT_EQ(with(100 * kGiB, 1 << 20), State::kMissing);
}

TEST(ServiceFindings, OfTheCertificate) {
  ServiceFacts facts = well();
  const auto at = [&](int64_t expires) {
    facts.certificate_expires = expires;
    return findingIn(facts, "certificate").state;
  };
  EXPECT_EQ(at(facts.now + 15 * kDay), State::kOk);
  EXPECT_EQ(at(facts.now + 13 * kDay), State::kReduced);
  EXPECT_EQ(at(facts.now), State::kMissing);
}

TEST(ServiceFindings, OfThePool) {
  ServiceFacts facts = well();
  facts.pool = model::PoolStats{};
  facts.pool->kinds = {{.language = "python", .ready = 2, .wanted = 3},
                       {.language = "bash", .ready = 5, .wanted = 1}};
  EXPECT_THAT(findingIn(facts, "pool").detail, HasSubstr("3 of 4 wanted"));
  facts.pool->held = model::PoolStats::Held::kMemory;
  EXPECT_EQ(findingIn(facts, "pool").state, State::kReduced);
  EXPECT_THAT(findingIn(facts, "pool").detail, HasSubstr("for lack of memory"));
}

}  // namespace
}  // namespace cloister::api

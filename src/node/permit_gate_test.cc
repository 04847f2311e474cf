// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "node/node_harness.h"

namespace cloister::node {
namespace {

constexpr int64_t kNow = 1'700'000'000'000'000;

class PermitGateTest : public testing::Test {
 protected:
  PermitGateTest() { model::settle(fields_.limits); }

  model::SignedPermit sign(const model::PermitFields& fields) const {
    model::SignedPermit permit{wire::encodePermit(fields), {}};
    permit.signature = key_.sign(permit.encoded);
    return permit;
  }
  Result<model::PermitFields> admit(bool use = true, int64_t now = kNow) {
    return gate_.admit(sign(fields_), now, use);
  }
  void expectDenied(const Result<model::PermitFields>& result, std::string_view why) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kDenied);
    EXPECT_NE(result.error().message.find(why), std::string::npos) << result.error().message;
  }

  base::SigningKey key_ = base::SigningKey::generate();
  PermitGate gate_{key_.verifyKey(), ceilingForTests(), 4};
  model::PermitFields fields_{.id = base::newId("permit"),
                              .execution_id = base::newId("exec"),
                              .session_id = "",
                              .tenant = "t",
                              .policy_id = "p",
                              .runtime = "fake",
                              .image = "host",
                              .network_tier = "none",
                              .limits = {},
                              .spec_sha256 = std::string(64, 'a'),
                              .prestart = "",
                              .not_before = kNow,
                              .expires = kNow + 30'000'000};
};

TEST_F(PermitGateTest, AdmitsAGoodPermitOnce) {
  const auto first = admit();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->execution_id, fields_.execution_id);
  expectDenied(admit(), "used before");
}

TEST_F(PermitGateTest, LookingDoesNotUse) {
  EXPECT_TRUE(admit(false));
  EXPECT_TRUE(admit(false));
  EXPECT_TRUE(admit());
}

TEST_F(PermitGateTest, RefusesForgeries) {
  model::SignedPermit permit = sign(fields_);
  permit.signature[0] = static_cast<char>(permit.signature[0] ^ 1);
  expectDenied(gate_.admit(permit, kNow, true), "signature");
  permit = sign(fields_);
  permit.encoded.back() = static_cast<char>(permit.encoded.back() ^ 1);
  expectDenied(gate_.admit(permit, kNow, true), "signature");
  const auto other = base::SigningKey::generate();
  permit = sign(fields_);
  permit.signature = other.sign(permit.encoded);
  expectDenied(gate_.admit(permit, kNow, true), "signature");
  expectDenied(gate_.admit({"", ""}, kNow, true), "signature");
  expectDenied(gate_.admit({std::string(100'000, 'x'), ""}, kNow, true), "long");
}

TEST_F(PermitGateTest, RefusesEverythingWithoutAKey) {
  PermitGate none(ceilingForTests());
  expectDenied(none.admit(sign(fields_), kNow, true), "no key");
  none.trust(key_.verifyKey());
  EXPECT_TRUE(none.admit(sign(fields_), kNow, true));
}

TEST_F(PermitGateTest, ANewKeyReplacesTheOldAndForgetsNoUse) {
  EXPECT_TRUE(admit());
  const auto other = base::SigningKey::generate();
  gate_.trust(other.verifyKey());
  expectDenied(admit(), "signature");
  gate_.trust(key_.verifyKey());
  expectDenied(admit(), "used before");
}

TEST_F(PermitGateTest, HoldsToItsTimes) {
  expectDenied(admit(true, kNow - 2'000'000), "not valid yet");
  expectDenied(admit(true, kNow + 32'000'000), "expired");
  fields_.expires = kNow + 3'600'000'000;
  expectDenied(admit(), "lives too long");
  fields_.expires = kNow - 1;
  expectDenied(admit(), "lives too long");
  fields_.expires = kNow + 30'000'000;
  EXPECT_TRUE(admit(true, kNow - 500'000));
}

TEST_F(PermitGateTest, HoldsEachLimitToTheCeiling) {
  const auto denies = [&](auto change) {
    model::PermitFields changed = fields_;
    changed.id = base::newId("permit");
    change(changed.limits);
    return !gate_.admit(sign(changed), kNow, true);
  };
  EXPECT_TRUE(denies([](auto& l) { l.wall = Millis{600'001}; }));
  EXPECT_TRUE(denies([](auto& l) { l.cpu_time = Millis{3'600'001}; }));
  EXPECT_TRUE(denies([](auto& l) { l.cpu_millis = 4001; }));
  EXPECT_TRUE(denies([](auto& l) { l.memory_bytes = (uint64_t{4} << 30) + 1; }));
  EXPECT_TRUE(denies([](auto& l) { l.disk_bytes = (uint64_t{4} << 30) + 1; }));
  EXPECT_TRUE(denies([](auto& l) { l.inodes = 65'537; }));
  EXPECT_TRUE(denies([](auto& l) { l.file_bytes = (uint64_t{4} << 30) + 1; }));
  EXPECT_TRUE(denies([](auto& l) { l.open_files = 1025; }));
  EXPECT_TRUE(denies([](auto& l) { l.pids = 4097; }));
  EXPECT_TRUE(denies([](auto& l) { l.output_bytes = (uint64_t{16} << 20) + 1; }));
  EXPECT_TRUE(denies([](auto& l) { l.pids = 0; })) << "zero is not unlimited";
  EXPECT_TRUE(denies([](auto& l) { l.wall = Millis{0}; }));
  EXPECT_FALSE(denies([](auto&) {}));
}

TEST_F(PermitGateTest, ANetworkComesWithTheDigestOfItsPlan) {
  fields_.network_tier = "restricted";
  expectDenied(admit(false), "no plan");
  fields_.network_plan_sha256 = std::string(64, 'g');
  expectDenied(admit(false), "no plan");
  fields_.network_plan_sha256 = std::string(63, 'a');
  expectDenied(admit(false), "no plan");
  fields_.network_plan_sha256 = std::string(64, 'a');
  fields_.network_ports = {443, 5432};
  EXPECT_TRUE(admit(false));
  fields_.network_ports = {443, 0};
  expectDenied(admit(false), "port 0");
  fields_.network_ports.clear();
  fields_.network_tier = "none";
  expectDenied(admit(false), "without a network");
  fields_.network_plan_sha256.clear();
  fields_.network_ports = {443};
  expectDenied(admit(false), "without a network");
}

TEST_F(PermitGateTest, RefusesStrangeTiersAndIds) {
  fields_.network_tier = "open";
  expectDenied(admit(), "network tier");
  fields_.network_tier = "none";
  fields_.id = "permit_1";
  expectDenied(admit(), "id");
}

TEST_F(PermitGateTest, RefusesWhatItCouldNotRemember) {
  for (int i = 0; i < 4; i++) {
    fields_.id = base::newId("permit");
    ASSERT_TRUE(admit());
  }
  fields_.id = base::newId("permit");
  const auto full = admit();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kQuota);
  fields_.not_before = kNow + 40'000'000;
  fields_.expires = fields_.not_before + 30'000'000;
  EXPECT_TRUE(admit(true, fields_.not_before)) << "those that have expired are forgotten";
}

}  // namespace
}  // namespace cloister::node

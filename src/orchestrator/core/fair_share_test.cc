// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/fair_share.h"

#include <gmock/gmock.h>

namespace cloister::orchestrator {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// The amount that `tenant` can take in single steps.
uint64_t takesAll(FairShare& share, const std::string& tenant, uint64_t all) {
  uint64_t taken = 0;
  for (; share.has(tenant, 1, all); taken++)
    share.take(tenant, 1);
  return taken;
}

TEST(FairShare, OneTenantLeavesTheKeptPart) {
  FairShare share({.kept_percent = 12}, 1);
  EXPECT_EQ(takesAll(share, "a", 100), 88U);
  EXPECT_EQ(takesAll(share, "b", 100), 4U)
      << "a third of the kept part: for a, itself and one more";
  EXPECT_EQ(takesAll(share, "a", 100), 0U);
  EXPECT_EQ(takesAll(share, "c", 100), 3U);
  EXPECT_EQ(takesAll(share, "d", 100), 2U);
  share.give("a", 88);
  EXPECT_EQ(share.of("a"), 0U);
  EXPECT_EQ(takesAll(share, "b", 100), 79U);
}

TEST(FairShare, EachFindsTheLeast) {
  FairShare share({.kept_percent = 10}, 4);
  takesAll(share, "flood", 100);
  for (const char* tenant : {"a", "b"}) {
    EXPECT_TRUE(share.has(tenant, 4, 100));
    EXPECT_FALSE(share.has(tenant, 6, 100));
    share.take(tenant, 4);
  }
  EXPECT_FALSE(share.has("c", 4, 100)) << "there is no more";
  EXPECT_TRUE(share.has("c", 2, 100));
}

TEST(FairShare, KeepsTheLeastAtLeastAndNothingOfVeryLittle) {
  const FairShare share({.kept_percent = 12}, 1);
  EXPECT_EQ(share.kept(4), 1U);
  EXPECT_EQ(share.kept(50), 6U);
  EXPECT_EQ(FairShare({.kept_percent = 50}, 1).kept(3), 0U);
  EXPECT_EQ(FairShare({.kept_percent = 12}, 256).kept(1000), 0U);
  EXPECT_EQ(FairShare({.kept_percent = 12}, 256).kept(1024), 256U);
  EXPECT_EQ(FairShare({}, 1).kept(200), 0U);
}

TEST(FairShare, NothingKeptIsFirstComeFirstServed) {
  FairShare share({}, 1);
  EXPECT_EQ(takesAll(share, "a", 10), 10U);
  EXPECT_FALSE(share.has("b", 1, 10));
  EXPECT_FALSE(share.has("b", UINT64_MAX, 10));
}

TEST(FairShare, AWeightMakesTheBaseLargerAndLeavesTheLeast) {
  FairShare share({.kept_percent = 20, .weights = {{"b", 2}, {"c", 1000}}}, 1);
  takesAll(share, "a", 100);
  EXPECT_EQ(takesAll(share, "b", 100), 12U);
  EXPECT_EQ(takesAll(share, "c", 100), 8U);
  share.give("b", 12);
  EXPECT_EQ(takesAll(share, "c", 100), 11U) << "19 in all";
  EXPECT_TRUE(share.has("d", 1, 100));
}

TEST(FairShare, WhatIsAwaitedKeepsOutNobodyWhoUsesLittle) {
  FairShare share({.kept_percent = 10}, 1);
  share.take("a", 9);
  share.await("a", 1);
  EXPECT_FALSE(share.comes("a", 1, 10));
  EXPECT_FALSE(share.has("a", 1, 10));
  EXPECT_TRUE(share.has("b", 1, 10));
  share.give("a", 1);
  EXPECT_TRUE(share.comes("a", 1, 10));
  share.arrive(1);
  EXPECT_EQ(share.total(), 9U);
}

TEST(FairShare, WhoHasWaitedLongIsNotPassedBySmallOnesForEver) {
  FairShare share({.kept_percent = 20}, 1);
  for (const char* tenant : {"a", "b", "c"})
    share.take(tenant, 3);
  EXPECT_FALSE(share.has("large", 80, 100));
  EXPECT_TRUE(share.hasAtLast("large", 80, 100)) << "what the others use is of the kept 20";
  EXPECT_FALSE(share.hasAtLast("large", 81, 100));
  EXPECT_TRUE(share.hasOfKept("d", 4, 100));
  share.take("d", 4);
  EXPECT_FALSE(share.hasOfKept("e", 5, 100)) << "a fifth of them is its base";
  share.take("flood", 30);
  EXPECT_FALSE(share.hasAtLast("large", 80, 100));
}

TEST(Weights, AreOfTenants) {
  EXPECT_THAT(*parseWeights({"a=2", " b = 1000 "}),
              UnorderedElementsAre(Pair("a", 2), Pair("b", 1000)));
  for (const char* row : {"a", "=2", "a=", "a=0", "a=1001", "a=2x", "a=-1", ""}) {
    const auto weights = parseWeights({row});
    ASSERT_FALSE(weights) << row;
    EXPECT_THAT(weights.error().message, HasSubstr("`TENANT = N`"));
    EXPECT_EQ(weights.error().field, "fairness.weights");
  }
  EXPECT_THAT(parseWeights({"a=2", "a=3"}).error().message, HasSubstr("twice"));
}

}  // namespace
}  // namespace cloister::orchestrator

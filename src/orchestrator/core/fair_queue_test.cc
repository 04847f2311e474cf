// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/fair_queue.h"

#include <gmock/gmock.h>

namespace cloister::orchestrator {
namespace {

using Queue = FairQueue<int>;

void add(Queue& queue, const std::string& tenant, int item) {
  ASSERT_TRUE(queue.reserve(tenant, 1));
  queue.push(tenant, item);
}

bool any(int /*item*/) {
  return true;
}

int pop(Queue& queue) {
  const int* first = queue.first(any);
  const int expected = first == nullptr ? -1 : *first;
  EXPECT_EQ(queue.pop(any), expected);
  return expected;
}

std::vector<int> drain(Queue& queue) {
  std::vector<int> items;
  while (!queue.empty())
    items.push_back(pop(queue));
  return items;
}

TEST(FairQueue, TakesTenantsInTurnAndEachInOrder) {
  Queue queue({});
  for (int i = 1; i <= 4; i++)
    add(queue, "a", i);
  for (int i = 11; i <= 12; i++)
    add(queue, "b", i);
  add(queue, "c", 21);
  EXPECT_EQ(queue.size(), 7U);
  EXPECT_THAT(drain(queue), testing::ElementsAre(1, 11, 21, 2, 12, 3, 4));
}

TEST(FairQueue, ANewTenantWaitsForOneTurnOnly) {
  Queue queue({});
  for (int i = 1; i <= 100; i++)
    add(queue, "a", i);
  EXPECT_EQ(pop(queue), 1);
  add(queue, "b", 1000);
  EXPECT_EQ(pop(queue), 2);
  EXPECT_EQ(pop(queue), 1000);
}

TEST(FairQueue, PassesOverThoseThatMayNot) {
  Queue queue({});
  for (int i = 1; i <= 4; i++)
    add(queue, "a", i);
  add(queue, "b", 11);
  add(queue, "b", 12);
  const auto even = [](int item) { return item % 2 == 0; };
  EXPECT_EQ(*queue.first(even), 2);
  EXPECT_EQ(queue.pop(even), 2);
  EXPECT_EQ(queue.pop(even), 12) << "it is b's turn";
  EXPECT_EQ(queue.pop(even), 4);
  EXPECT_EQ(queue.pop(even), std::nullopt);
  EXPECT_EQ(queue.first(even), nullptr);
  EXPECT_THAT(drain(queue), testing::ElementsAre(11, 1, 3)) << "b has had one turn, a two";
}

TEST(FairQueue, HoldsItsBounds) {
  Queue queue({.items = 3, .items_per_tenant = 2, .bytes = 100});
  EXPECT_TRUE(queue.reserve("a", 10));
  EXPECT_TRUE(queue.reserve("a", 10));
  EXPECT_EQ(queue.reserve("a", 10).error().code, Code::kQuota);
  EXPECT_EQ(queue.reserve("b", 90).error().code, Code::kQuota) << "too many bytes";
  EXPECT_TRUE(queue.reserve("b", 10));
  EXPECT_EQ(queue.reserve("c", 10).error().code, Code::kQuota) << "too many altogether";
  queue.release("a", 10);
  EXPECT_TRUE(queue.reserve("c", 10));
}

TEST(FairQueue, APartIsKeptForTenantsWithFewThatWait) {
  Queue queue({.items = 8, .items_per_tenant = 8, .fairness = {.kept_percent = 12}});
  for (int i = 0; i < 7; i++)
    EXPECT_TRUE(queue.reserve("a", 0));
  const auto full = queue.reserve("a", 0);
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message,
              testing::HasSubstr("8 runs may wait, and what is left of them"));
  EXPECT_TRUE(queue.reserve("b", 0));
  EXPECT_FALSE(queue.reserve("c", 0));
}

TEST(FairQueue, WhatWaitsOutsideTheBoundsKeepsOutNobodyWithFew) {
  Queue queue({.items = 8, .items_per_tenant = 8, .fairness = {.kept_percent = 12}});
  for (int i = 0; i < 12; i++)
    queue.take("a", 0);
  EXPECT_FALSE(queue.reserve("a", 0));
  EXPECT_TRUE(queue.reserve("b", 0));
  EXPECT_FALSE(queue.reserve("b", 0));
}

TEST(FairQueue, APartOfTheBytesToo) {
  constexpr size_t kMiB = 1 << 20;
  Queue queue({.bytes = 16 * kMiB, .fairness = {.kept_percent = 12}});
  EXPECT_TRUE(queue.reserve("a", 15 * kMiB - kMiB));
  EXPECT_FALSE(queue.reserve("a", kMiB));
  EXPECT_TRUE(queue.reserve("b", kMiB));
}

TEST(FairQueue, ATurnIsAsManyAsTheWeight) {
  Queue queue({.fairness = {.weights = {{"b", 2}}}});
  for (int i = 1; i <= 3; i++)
    add(queue, "a", i);
  for (int i = 11; i <= 14; i++)
    add(queue, "b", i);
  EXPECT_THAT(drain(queue), testing::ElementsAre(1, 11, 12, 2, 13, 14, 3));
}

TEST(FairQueue, AHugeOneGetsItsPlaceAlone) {
  Queue queue({.items = 3, .items_per_tenant = 3, .bytes = 100});
  EXPECT_TRUE(queue.reserve("a", 1000));
  EXPECT_FALSE(queue.reserve("a", 1));
  queue.release("a", 1000);
  EXPECT_TRUE(queue.reserve("a", 1));
}

TEST(FairQueue, APlaceIsHeldUntilItIsReleased) {
  Queue queue({.items = 1, .items_per_tenant = 1, .bytes = 100});
  add(queue, "a", 1);
  EXPECT_EQ(pop(queue), 1);
  EXPECT_FALSE(queue.reserve("a", 1));
  queue.release("a", 1);
  EXPECT_TRUE(queue.reserve("a", 1));
}

TEST(FairQueue, RemovesFromTheMiddle) {
  Queue queue({});
  for (int i = 1; i <= 3; i++)
    add(queue, "a", i);
  add(queue, "b", 11);
  EXPECT_TRUE(queue.remove("a", 2));
  EXPECT_FALSE(queue.remove("a", 2));
  EXPECT_FALSE(queue.remove("nobody", 2));
  EXPECT_TRUE(queue.remove("b", 11));
  EXPECT_THAT(drain(queue), testing::ElementsAre(1, 3));
  add(queue, "b", 12);
  EXPECT_THAT(drain(queue), testing::ElementsAre(12));
}

}  // namespace
}  // namespace cloister::orchestrator

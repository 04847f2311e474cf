// SPDX-License-Identifier: Apache-2.0
// Roots and proofs over a real ledger: complete, bounded, and silent about other entries.
#include "audit/root_keeper.h"

#include <future>
#include <set>

#include "audit/audit_fixture.h"
#include "audit/root_check.h"

namespace cloister::audit {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMinute = int64_t{60} * 1'000'000;
const std::atomic<bool> kGoesOn{false};
const std::string kSecret(64, '7');

std::vector<store::EntryHash> entries(uint64_t count) {
  std::vector<store::EntryHash> all;
  for (uint64_t i = 1; i <= count; ++i)
    all.push_back({.position = i, .hash = base::sha256Hex(std::to_string(i))});
  return all;
}

TEST(ProofTree, LeadsFromEachEntryToTheRoot) {
  for (const uint64_t count : {1, 2, 3, 50, 1000}) {
    const auto all = entries(count);
    const ProofTree tree = ProofTree::build(kSecret, all, kGoesOn).value();
    for (const store::EntryHash& each : all) {
      const uint64_t place = tree.placeOf(each.position);
      const auto siblings = tree.siblings(each.position);
      ASSERT_EQ(siblings.size(), model::kProofDepth);
      const auto leaf = model::leafDigest(place, base::digestFromHex(each.hash).value());
      EXPECT_EQ(model::climb(place, leaf, siblings), tree.root()) << each.position;
      EXPECT_EQ(std::set(siblings.begin(), siblings.end()).size(), siblings.size());
    }
  }
}

TEST(ProofTree, DependsOnEachEntryAndOnTheSecret) {
  auto all = entries(20);
  const auto root = ProofTree::build(kSecret, all, kGoesOn).value().root();
  EXPECT_EQ(ProofTree::build(kSecret, all, kGoesOn).value().root(), root);
  EXPECT_NE(ProofTree::build(std::string(64, '8'), all, kGoesOn).value().root(), root);
  all[7].hash = base::sha256Hex("another");
  EXPECT_NE(ProofTree::build(kSecret, all, kGoesOn).value().root(), root);
  EXPECT_NE(ProofTree::build(kSecret, {}, kGoesOn).value().root(),
            ProofTree::build(std::string(64, '8'), {}, kGoesOn).value().root());
  EXPECT_FALSE(ProofTree::build("short", all, kGoesOn));
  all[7].hash = "none";
  EXPECT_THAT(ProofTree::build(kSecret, all, kGoesOn).error().message, HasSubstr("entry 8"));
  const std::atomic<bool> stop{true};
  EXPECT_EQ(ProofTree::build(kSecret, entries(20), stop).error().code, Code::kUnavailable);
}

TEST(RootPeriods, EndOnTheGrid) {
  using std::chrono::seconds;
  EXPECT_EQ(endOfPeriod(10 * kMinute + 17, 0, seconds(60)), 10 * kMinute);
  EXPECT_EQ(endOfPeriod(11 * kMinute + 17, 10 * kMinute, seconds(60)), 11 * kMinute);
  EXPECT_EQ(endOfPeriod(90 * kMinute + 17, 10 * kMinute, seconds(60)), 90 * kMinute) << "a pause";
  EXPECT_EQ(endOfPeriod(5 * kMinute, 10 * kMinute, seconds(60)), 11 * kMinute)
      << "a clock that was set back";
  EXPECT_EQ(mostEntries({.every = seconds(1)}), 1000U);
  EXPECT_EQ(mostEntries({.every = seconds(600)}), 65'536U);
}

class Roots : public AuditVerify {
 protected:
  void SetUp() override {
    AuditVerify::SetUp();
    open();
  }
  model::AuditEntry entryAt(uint64_t position) {
    return store_->audit(store::Scope::allTenants(), position - 1, 1).value().at(0);
  }
  Result<model::InclusionProof> prove(RootKeeper& keeper, uint64_t position) {
    std::promise<Result<model::InclusionProof>> promise;
    keeper.prove(entryAt(position), [&](auto proof) { promise.set_value(std::move(proof)); });
    return promise.get_future().get();
  }
  void add(int count) {
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(store::testing::append(*store_, "more", "other"));
  }
};

TEST_F(Roots, HaveEachEntryOnce) {
  RootKeeper keeper(*store_, *key_, {});
  ASSERT_TRUE(keeper.make(1 * kMinute));
  ASSERT_TRUE(keeper.make(2 * kMinute)) << "without an entry";
  add(3);
  ASSERT_TRUE(keeper.make(3 * kMinute));
  const auto stored = store::roots(*store_).list(0, 10).value();
  ASSERT_EQ(stored.size(), 3U);
  EXPECT_EQ(std::pair(stored[0].first, stored[0].last), std::pair(uint64_t{1}, uint64_t{40}));
  EXPECT_EQ(std::pair(stored[1].first, stored[1].last), std::pair(uint64_t{41}, uint64_t{40}));
  EXPECT_EQ(std::pair(stored[2].first, stored[2].last), std::pair(uint64_t{41}, uint64_t{43}));
  EXPECT_EQ(store::roots(*store_).covering(40).value()->root.number, 1U);
  EXPECT_EQ(store::roots(*store_).covering(41).value()->root.number, 3U);
  EXPECT_FALSE(store::roots(*store_).covering(44).value());
  EXPECT_EQ(rootsProblem(*store_, key_->verifyKey()).value(), "");
  EXPECT_TRUE(verifyNow().ok);
}

TEST_F(Roots, ProveEntriesOfEachPeriod) {
  RootKeeper keeper(*store_, *key_, {.every = std::chrono::seconds(600)});
  ASSERT_TRUE(keeper.make(1 * kMinute));
  add(3);
  ASSERT_TRUE(keeper.make(2 * kMinute));
  keeper.start();  // makes the next one by itself
  for (const uint64_t position : {1, 40, 41, 43}) {
    const auto proof = prove(keeper, position);
    ASSERT_TRUE(proof) << proof.error().message;
    EXPECT_EQ(proof->record.number, position <= 40 ? 1U : 2U);
    EXPECT_TRUE(model::verifyInclusion(*proof, key_->verifyKey()));
  }
  add(1);
  const auto early = prove(keeper, 44);
  EXPECT_EQ(early.error().code, Code::kConflict);
  EXPECT_THAT(early.error().message, HasSubstr("in no root yet; ask again after "));
}

TEST_F(Roots, AreBoundedInEntriesAndNumber) {
  RootKeeper keeper(*store_, *key_, {.every = std::chrono::seconds(60), .keep = 2});
  for (int i = 1; i <= 4; ++i)
    ASSERT_TRUE(keeper.make(i * kMinute));
  const auto kept = store::roots(*store_).list(0, 10).value();
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].root.number, 3U);
  EXPECT_FALSE(store::roots(*store_).covering(1).value());
  EXPECT_EQ(rootsProblem(*store_, key_->verifyKey()).value(), "");
}

TEST_F(Roots, OfALongLogLeaveTheSurplusToTheNext) {
  RootKeeper keeper(*store_, *key_, {.every = std::chrono::seconds(1)});
  ASSERT_TRUE(keeper.make(1'000'000));
  add(1100);
  ASSERT_TRUE(keeper.make(2'000'000));
  ASSERT_TRUE(keeper.make(3'000'000));
  const auto stored = store::roots(*store_).list(0, 10).value();
  EXPECT_EQ(stored.at(1).last, 1040U);
  EXPECT_EQ(stored.at(2).last, 1140U);
}

TEST_F(Roots, OfAnEarlierVersionsLongLogBeginAfterIt) {
  add(1000);
  RootKeeper keeper(*store_, *key_, {.every = std::chrono::seconds(1)});
  ASSERT_TRUE(keeper.make(1'000'000));
  EXPECT_EQ(store::roots(*store_).newest().value()->first, 1041U);
  add(1);
  ASSERT_TRUE(keeper.make(2'000'000));
  EXPECT_EQ(store::roots(*store_).covering(1041).value()->root.number, 2U);
  EXPECT_EQ(rootsProblem(*store_, key_->verifyKey()).value(), "");
}

TEST_F(Roots, ThatWereChangedAreNamed) {
  {
    RootKeeper keeper(*store_, *key_, {});
    for (int i = 1; i <= 3; ++i) {
      add(1);
      ASSERT_TRUE(keeper.make(i * kMinute));
    }
  }
  const std::pair<std::string, std::string> changes[] = {
      {"UPDATE audit_roots SET root=log WHERE number=2", "root 2 has a signature"},
      {"UPDATE audit_roots SET ends=ends+1 WHERE number=3", "root 3 has a signature"},
      {"DELETE FROM audit_roots WHERE number=2", "root 3: it does not follow root 1"},
      {"UPDATE audit_roots SET last_row=last_row-1 WHERE number=3", "root 3: it is not of the log"},
      {"UPDATE audit_roots SET first_row=first_row+1 WHERE number=3", "root 3: it does not follow"},
  };
  close();
  store::testing::RawFile(dir_.file("ledger.db"))
      .run("CREATE TABLE kept AS SELECT * FROM audit_roots");
  for (const auto& [change, words] : changes) {
    store::testing::RawFile(dir_.file("ledger.db"))
        .run("DELETE FROM audit_roots; INSERT INTO audit_roots SELECT * FROM kept; " + change);
    open();
    const Report report = verifyNow();
    EXPECT_FALSE(report.ok) << change;
    EXPECT_THAT(report.problem, HasSubstr(words));
    close();
  }
}

TEST_F(Roots, ThatAreNotOfTheEntriesProveNothing) {
  {
    RootKeeper keeper(*store_, *key_, {});
    ASSERT_TRUE(keeper.make(1 * kMinute));
  }
  close();
  sql("UPDATE audit SET hash='" + std::string(64, '1') + "' WHERE seq=5");
  open();
  RootKeeper keeper(*store_, *key_, {.every = std::chrono::seconds(600)});
  keeper.start();
  const auto proof = prove(keeper, 1);
  EXPECT_THAT(proof.error().message, HasSubstr("root 1 is not of the log's entries"));
}

}  // namespace
}  // namespace cloister::audit

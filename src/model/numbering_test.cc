// SPDX-License-Identifier: Apache-2.0
#include "model/numbering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::model {
namespace {

using ::testing::HasSubstr;

class NumberingTest : public ::testing::Test {
 protected:
  std::string next(const std::string& tenant, uint64_t seq) {
    AuditEntry entry;
    entry.seq = seq;
    entry.event.action = "test.noted";
    entry.event.principal.tenant = tenant;
    return numbering_.check(++position_, entry);
  }
  std::string turn(uint64_t seq, uint64_t through) {
    AuditEntry entry;
    entry.seq = seq;
    entry.event = renumbered(through);
    return numbering_.check(++position_, entry);
  }

  Numbering numbering_;
  uint64_t position_ = 0;
};

TEST_F(NumberingTest, OfATenantRiseByOne) {
  EXPECT_EQ(next("a", 1), "");
  EXPECT_EQ(next("b", 1), "");
  EXPECT_EQ(next("a", 2), "");
  EXPECT_FALSE(numbering_.old());
  EXPECT_THAT(next("a", 4), HasSubstr("number 3 of tenant a is missing: number 4 is the next"));
  EXPECT_THAT(next("b", 1), HasSubstr("number 1 of tenant b is there twice"));
}

TEST_F(NumberingTest, OfAnEarlierVersionAreThePositions) {
  EXPECT_EQ(next("a", 1), "");
  EXPECT_EQ(next("b", 2), "");
  EXPECT_TRUE(numbering_.old());
  EXPECT_THAT(next("b", 1), HasSubstr("its number is 1, though no entry ledger.renumbered"));
}

TEST_F(NumberingTest, GoOnAboveTheOldOnes) {
  EXPECT_EQ(next("a", 1), "");
  EXPECT_EQ(next("b", 2), "");
  EXPECT_EQ(next("system", 3), "");
  EXPECT_EQ(turn(4, 3), "");
  EXPECT_FALSE(numbering_.old());
  EXPECT_EQ(next("a", 2), "");
  EXPECT_EQ(next("b", 3), "");
  EXPECT_EQ(next("c", 1), "");
  EXPECT_THAT(next("c", 8), HasSubstr("number 2 of tenant c is missing"));
  EXPECT_THAT(next("a", 1), HasSubstr("number 1 of tenant a stands behind number 2"));
}

TEST_F(NumberingTest, AreEndedOnceAndWhereTheyEnd) {
  EXPECT_EQ(next("a", 1), "");
  EXPECT_THAT(turn(1, 7), HasSubstr("does not end the numbers of the 1 entries before it"));
  numbering_ = {};
  position_ = 0;
  EXPECT_EQ(next("a", 1), "");
  EXPECT_EQ(turn(1, 1), "");
  EXPECT_THAT(turn(2, 2), HasSubstr("ended before it"));
  numbering_ = {};
  position_ = 0;
  EXPECT_EQ(next("a", 1), "");
  EXPECT_EQ(next("b", 1), "");
  EXPECT_THAT(turn(1, 2), HasSubstr("never were")) << "this log never had old numbers";
}

}  // namespace
}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
#include "vmm/text.h"

#include <gtest/gtest.h>

namespace cloister::vmm {
namespace {

TEST(Text, IsPutTogether) {
  Text<64> text;
  text.add("a").number(0).number(1'234'567).quoted("x");
  EXPECT_EQ(text.view(), "a01234567\"x\"");
  EXPECT_STREQ(text.c_str(), "a01234567\"x\"");
  EXPECT_FALSE(text.full());
  Text<64> most;
  EXPECT_EQ(most.number(UINT64_MAX).view(), "18446744073709551615");
}

TEST(Text, IsJsonWhereItIsQuoted) {
  Text<64> text;
  EXPECT_EQ(text.quoted("a\"b\\c\n\x01").view(), "\"a\\\"b\\\\c\\u000a\\u0001\"");
}

TEST(Text, ShowsWhatMayBeShown) {
  Text<64> text;
  EXPECT_EQ(text.shown("a\x1b[31m\xff z", 7).view(), "a [31m ");
}

TEST(Text, NoticesWhatDoesNotFit) {
  Text<4> text;
  EXPECT_FALSE(text.add("abc").full());
  EXPECT_TRUE(text.add("d").full());
  EXPECT_STREQ(text.c_str(), "abc");
}

}  // namespace
}  // namespace cloister::vmm

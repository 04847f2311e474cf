// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/display_path.h"

#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

TEST(DisplayPath, ShowsWhatIsSafeAndEscapesTheRest) {
  EXPECT_EQ(displayPath("sub/plot 1.png"), "sub/plot 1.png");
  EXPECT_EQ(displayPath("\xc3\xa9t\xc3\xa9.txt"), "\xc3\xa9t\xc3\xa9.txt");
  EXPECT_EQ(displayPath("a\nb"), "a%0Ab");
  EXPECT_TRUE(isEscaped("a\nb"));
  EXPECT_FALSE(isEscaped("a%0Ab")) << "a name that is written so";
  EXPECT_EQ(displayPath("\x1b[31m%"), "%1B[31m%25");
  EXPECT_EQ(displayPath("a\xff"), "a%FF");
  EXPECT_EQ(displayPath("gpj.\xe2\x80\xae"
                        "exe"),
            "gpj.%E2%80%AEexe");
  EXPECT_EQ(displayPath("a\xc2\x85"), "a%C2%85");
  EXPECT_EQ(displayPath("a/../b"), "");
}

}  // namespace
}  // namespace cloister::orchestrator

// SPDX-License-Identifier: Apache-2.0
#include "cli/render/sandbox_units.h"

#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

TEST(SandboxUnits, AmountsAsPeopleWriteThem) {
  EXPECT_EQ(parseMemoryMb("2GB"), 2048);
  EXPECT_EQ(parseMemoryMb("512MB"), 512);
  EXPECT_EQ(parseMemoryMb("1.5GiB"), 1536);
  EXPECT_EQ(parseMemoryMb("0.1MB"), 1) << "never less than was meant";
  EXPECT_EQ(parsePercent("50%"), 50);
  EXPECT_EQ(parsePercent("50"), 50);
  EXPECT_EQ(parseSeconds("30min", "time"), 1800);
  EXPECT_EQ(parseSeconds("90s", "time"), 90);
  EXPECT_EQ(parseSeconds("2 hours", "time"), 7200);
  EXPECT_EQ(parseSeconds("7d", "period"), 604'800);
}

TEST(SandboxUnits, WhatIsNoAmountNamesTheFlag) {
  for (const char* text : {"", "GB", "-1GB", "0MB", "2", "2GBs", "1e300GB", "nan", "inf", "2 G B",
                           "99999999999999GB"}) {
    const auto read = parseMemoryMb(text);
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().message.find("--memory"), std::string::npos);
  }
  EXPECT_FALSE(parsePercent("50min"));
  EXPECT_FALSE(parseSeconds("30", "time")) << "of what?";
  EXPECT_NE(parseSeconds("x", "period").error().message.find("--period"), std::string::npos);
}

TEST(SandboxUnits, AreShownAsTheyAreWritten) {
  EXPECT_EQ(shownMemory(512), "512MB");
  EXPECT_EQ(shownMemory(1843), "1.8GB");
  EXPECT_EQ(shownSeconds(12), "12s");
  EXPECT_EQ(shownSeconds(1500), "25min");
  EXPECT_EQ(shownSeconds(6300), "1h 45min");
}

}  // namespace
}  // namespace cloister::cli

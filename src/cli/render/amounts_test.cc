// SPDX-License-Identifier: Apache-2.0
#include "cli/render/amounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

using testing::HasSubstr;

TEST(Amounts, MemoryIsMiB) {
  const std::pair<const char*, int64_t> cases[] = {
      {"512", 512},    {"512MB", 512}, {"512m", 512},    {"512 MiB", 512},
      {"2g", 2048},    {"2GB", 2048},  {"1.5GiB", 1536}, {"1Gi", 1024},
      {"1t", 1 << 20}, {"2048k", 2},   {"0.1MB", 1}};
  for (const auto& [text, mib] : cases)
    EXPECT_EQ(parseMemoryMb(text, "memory").value(), mib) << text;
  for (const char* text : {"", "lots", "-1g", "0", "2x", "1g2m", "g", "1e3", "99999999999999g"})
    EXPECT_THAT(parseMemoryMb(text, "memory").error().message, HasSubstr("--memory: ")) << text;
  EXPECT_THAT(parseMemoryMb("2x", "disk").error().message,
              HasSubstr("--disk: \"2x\" is no amount; write it as 512MB or 2g"));
}

TEST(Amounts, Processors) {
  EXPECT_EQ(parsePercent("50%", "cpu").value(), 50);
  EXPECT_EQ(parsePercent("50", "cpu").value(), 50);
  const std::pair<const char*, int64_t> cases[] = {
      {"800", 800},      {"800m", 800},      {"0.5", 500}, {"1.0", 1000},
      {"2 cores", 2000}, {"0.5 cores", 500}, {"50%", 500}};
  for (const auto& [text, millis] : cases)
    EXPECT_EQ(parseCpuMillis(text, "cpu").value(), millis) << text;
  EXPECT_FALSE(parseCpuMillis("fast", "cpu"));
}

TEST(Amounts, Times) {
  const std::pair<const char*, double> cases[] = {
      {"90", 90},      {"0h", 0},        {"1.5", 1.5},    {"90s", 90},
      {"500ms", 0.5},  {"30min", 1800},  {"30m", 1800},   {"2 hours", 7200},
      {"1h30m", 5400}, {"1h 30m", 5400}, {"7d", 604'800}, {"2w", 1'209'600}};
  for (const auto& [text, seconds] : cases)
    EXPECT_DOUBLE_EQ(parseDuration(text, "timeout").value(), seconds) << text;
  for (const char* text : {"", "soon", "-1s", "1h30", "30x", "1.2.3", "s", "1hh"})
    EXPECT_THAT(parseDuration(text, "ttl").error().message, HasSubstr("--ttl: ")) << text;
  EXPECT_EQ(parseSeconds("500ms", "ttl").value(), 1) << "never less than was meant";
}

TEST(Amounts, AsShown) {
  EXPECT_EQ(shownMemory(512), "512MB");
  EXPECT_EQ(shownMemory(1843), "1.8GB");
  EXPECT_EQ(shownSeconds(12), "12s");
  EXPECT_EQ(shownSeconds(1500), "25min");
  EXPECT_EQ(shownSeconds(6300), "1h 45min");
  EXPECT_EQ(shortSeconds(90), "90s");
  EXPECT_EQ(shortSeconds(1500), "25m");
  EXPECT_EQ(shortSeconds(12'000), "3h");
  EXPECT_EQ(shortSeconds(800'000), "9d");
  EXPECT_EQ(shortSeconds(-5), "0s");
}

}  // namespace
}  // namespace cloister::cli

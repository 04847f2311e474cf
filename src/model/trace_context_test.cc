// SPDX-License-Identifier: Apache-2.0
#include "model/trace_context.h"

#include <string>

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

std::string with(const std::string& version, const std::string& flags) {
  return version + "-" + kTrace + "-" + kSpan + "-" + flags;
}

TEST(TraceContext, ReadsAndWritesTheHeader) {
  const auto context = parseTraceparent(with("00", "01"));
  ASSERT_TRUE(context);
  EXPECT_EQ(toHex(context->trace), kTrace);
  EXPECT_EQ(toHex(context->span), kSpan);
  EXPECT_TRUE(*context);
  EXPECT_EQ(toTraceparent(*context), with("00", "01"));
  EXPECT_FALSE(*parseTraceparent(with("00", "00")));
  EXPECT_TRUE(parseTraceparent(with("00", "03"))->sampled) << "other flags have no effect";
}

TEST(TraceContext, ReadsTheFirstMembersOfLaterVersions) {
  EXPECT_TRUE(parseTraceparent(with("cc", "01")));
  EXPECT_TRUE(parseTraceparent(with("cc", "01") + "-what-comes-later"));
  EXPECT_FALSE(parseTraceparent(with("cc", "01") + "."));
  EXPECT_FALSE(parseTraceparent(with("ff", "01")));
}

TEST(TraceContext, IgnoresWhatTheStandardForbids) {
  for (const std::string& text : {
           std::string(),
           std::string("00"),
           with("00", "01") + "-more",
           with("00", "0"),
           with("0x", "01"),
           with("00", "0g"),
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + std::string(kSpan) + "-01",
           "00-" + std::string(32, '0') + "-" + kSpan + "-01",
           "00-" + std::string(kTrace) + "-" + std::string(16, '0') + "-01",
           "00_" + std::string(kTrace) + "-" + kSpan + "-01",
           std::string(55, '-'),
       }) {
    EXPECT_FALSE(parseTraceparent(text)) << text;
  }
}

}  // namespace
}  // namespace cloister::model

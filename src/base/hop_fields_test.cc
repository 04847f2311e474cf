// SPDX-License-Identifier: Apache-2.0
#include "base/hop_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::base {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(HopFields, AreThoseOfOneConnection) {
  for (const char* name : {"connection", "te", "upgrade", "http2-settings", "proxy-authorization",
                           "transfer-encoding", "content-length"})
    EXPECT_TRUE(hopFields().contains(name)) << name;
  for (const char* name : {"host", "authorization", "accept", "cookie"})
    EXPECT_FALSE(hopFields().contains(name)) << name;
}

TEST(HopFields, ElementsOfAListAreNames) {
  EXPECT_THAT(listElements("close, X-One ,\tx-two\t"), ElementsAre("close", "x-one", "x-two"));
  EXPECT_THAT(listElements(",, ,"), IsEmpty());
  EXPECT_THAT(listElements(""), IsEmpty());
}

TEST(HopFields, AValueIsOneLine) {
  EXPECT_TRUE(isOneLine("text/html;\tq=1"));
  EXPECT_TRUE(isOneLine("caf\xC3\xA9"));
  for (const char* bad : {"a\r\nHost: b", "a\nb", "a\rb", "\x7f", "\x01"})
    EXPECT_FALSE(isOneLine(bad)) << bad;
  EXPECT_FALSE(isOneLine(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace cloister::base

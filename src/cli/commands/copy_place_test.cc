// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/copy_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

using testing::HasSubstr;

TEST(Place, SessionOrLocal) {
  struct Case {
    const char* operand;
    const char* session;
    const char* path;
    bool into;
  };
  constexpr Case kCases[] = {
      {"ses_1:a/b.txt", "ses_1", "a/b.txt", false},
      {"ses_1:/workspace/a", "ses_1", "a", false},
      {"ses_1:/workspace/a/", "ses_1", "a", true},
      {"ses_1:/workspace", "ses_1", "", true},
      {"ses_1:/workspace//", "ses_1", "", true},
      {"ses_1:", "ses_1", "", true},
      {"ses_1:.", "ses_1", "", true},
      {"ses_1:./a//b/.", "ses_1", "a/b", false},
      {"ses_1:a:b", "ses_1", "a:b", false},
      {"ses_1:..a/...", "ses_1", "..a/...", false},
      {"ses_1:workspace/a", "ses_1", "workspace/a", false},
      {"ses_1:-", "ses_1", "-", false},
      {"./a:b", "", "./a:b", false},
      {"/a:b/", "", "/a:b/", true},
      {"a", "", "a", false},
      {"-", "", "-", false},
  };
  for (const Case& each : kCases) {
    const auto place = parsePlace(each.operand);
    ASSERT_TRUE(place) << each.operand << ": " << place.error().message;
    EXPECT_EQ(place->session, each.session) << each.operand;
    EXPECT_EQ(place->path, each.path) << each.operand;
    EXPECT_EQ(place->into, each.into) << each.operand;
  }
}

TEST(Place, Refusals) {
  EXPECT_THAT(parsePlace("").error().message, HasSubstr("empty"));
  EXPECT_THAT(parsePlace(":a").error().message, HasSubstr("./:NAME"));
  for (const char* each : {"s:/", "s:/etc/passwd", "s:/workspaces/a", "s:/work", "s://workspace/a"})
    EXPECT_THAT(parsePlace(each).error().message, HasSubstr("in /workspace")) << each;
  for (const char* each : {"s:..", "s:../a", "s:a/../b", "s:/workspace/.."})
    EXPECT_THAT(parsePlace(each).error().message, HasSubstr("..")) << each;
}

TEST(Place, StandardIsLocal) {
  EXPECT_TRUE(parsePlace("-")->standard());
  EXPECT_FALSE(parsePlace("s:-")->standard());
  EXPECT_FALSE(parsePlace("./-")->standard());
}

TEST(Place, TextMeansTheSame) {
  EXPECT_EQ(parsePlace("s:a/b")->text(), "s:/workspace/a/b");
  EXPECT_EQ(parsePlace("s:")->text(), "s:/workspace");
  EXPECT_EQ(parsePlace("a/b")->text(), "a/b");
}

TEST(Paths, NamesAndEncoding) {
  EXPECT_EQ(nameOf("a/b//"), "b");
  EXPECT_EQ(nameOf("b"), "b");
  for (const char* each : {"", ".", "..", "/", "a/..", "./"})
    EXPECT_EQ(nameOf(each), "") << each;
  EXPECT_EQ(joinPath("a/", "b"), "a/b");
  EXPECT_EQ(joinPath("", "b"), "b");
  EXPECT_EQ(encodePath("a b/c?d/%\xff"), "a%20b/c%3Fd/%25%FF");
}

}  // namespace
}  // namespace cloister::cli

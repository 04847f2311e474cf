// SPDX-License-Identifier: Apache-2.0
#include "model/shown_text.h"

#include <gmock/gmock.h>

#include "model/request_shown.h"

namespace cloister::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> unusual(std::string_view text, bool lines = false) {
  uint64_t left_out = 0;
  std::vector<std::string> out;
  for (const Unusual& each : unusualIn(text, lines, 100, left_out))
    out.push_back(codepointName(each.point) + " " + each.what);
  return out;
}

TEST(ShownText, NoPathPosesAsAnother) {
  EXPECT_EQ(markedText("rm -rf /tmp/\u0430"), "rm -rf /tmp/\\u{430}");
  EXPECT_EQ(markedText("/tmp/p\u0430ypal"), "/tmp/p\\u{430}ypal");
  EXPECT_EQ(markedText("rm \u2013rf /"), "rm \\u{2013}rf /");
  EXPECT_EQ(markedText("/etc\u2215passwd"), "/etc\\u{2215}passwd");
  EXPECT_EQ(markedText("\uff41b"), "\\u{ff41}b");
  EXPECT_EQ(markedText("a\u0338b"), "a\\u{338}b");
  EXPECT_EQ(markedText("\u00e9\u0430"), "\u00e9\\u{430}") << "in a word with another Latin letter";
  EXPECT_EQ(markedText("a\u0448b"), "a\\u{448}b") << "nothing like it, and yet not Latin";
}

TEST(ShownText, OtherAlphabetsStayLegible) {
  for (const char* text :
       {"größe", "naïve café", "привет", "За мир в доме", "Ελλάδα", "漢字 Python漢字"})
    EXPECT_THAT(unusual(text), testing::Not(testing::Contains(HasSubstr("of another")))) << text;
  EXPECT_THAT(unusual("größe"), IsEmpty());
  EXPECT_THAT(unusual("привет"), IsEmpty());
  EXPECT_THAT(unusual("漢字 Python漢字 🚀"), IsEmpty());
}

TEST(ShownText, OtherFormsOfAsciiAreMarkedAlsoAlone) {
  EXPECT_EQ(markedText("dep\u217coy.sh"), "dep\\u{217c}oy.sh");
  EXPECT_EQ(markedText("bash \U0001d41a"), "bash \\u{1d41a}");
  EXPECT_EQ(markedText("a \u01c0\u01c0 b"), "a \\u{1c0}\\u{1c0} b");
  for (const char* text :
       {"\u2160", "\u2162", "\u217f", "\ua4d0", "\ua4f2", "\u01c3",    "\u1d04", "\u1d0f",
        "\u1d20", "\ufe68", "\u2571", "\u27cb", "\u2f03", "\u1fef",    "\u02d7", "\u02bc",
        "\u24d0", "\u2102", "\u00b2", "\ufb01", "\u2025", "\U0001d7d8"}) {
    EXPECT_EQ(unusual(text).size(), 1U) << text;
    EXPECT_EQ(unusual(std::string("p") + text + "x").size(), 1U) << text;
  }
  EXPECT_THAT(unusual("\u1d04\u1d00\u1d1b"), ElementsAre("U+1D04 small capital, looks like \"c\""));
  EXPECT_THAT(unusual("\ua4d0\ua4d2"), IsEmpty()) << "a word with a letter that only Lisu has";
}

TEST(ShownText, WhatIsNotSeenIsNamed) {
  EXPECT_THAT(unusual("a\u202eb\u200bc\x1b\xff\u00a0"),
              ElementsAre("U+202E turns the direction of text", "U+200B has no width",
                          "U+001B control character", "U+00FF not UTF-8",
                          "U+00A0 space, looks like \" \""));
  EXPECT_THAT(unusual("a\n\tb\r", true), ElementsAre("U+000D control character"));
  EXPECT_THAT(unusual("a\nb"), ElementsAre("U+000A control character"));
  EXPECT_THAT(unusual("\u0430"), ElementsAre("U+0430 Cyrillic, looks like \"a\""));
}

TEST(ShownText, WhatIsLeftOutIsCounted) {
  uint64_t left_out = 0;
  EXPECT_EQ(unusualIn("\u200b\u200b\u200b", false, 1, left_out).size(), 1U);
  EXPECT_EQ(left_out, 2U);
  EXPECT_EQ(markedText("ab\u0430", 2), "ab [2 more bytes]");
}

TEST(ShownText, ARequestIsShownWholeWithItsFiles) {
  const auto request =
      base::parseJson(R"({"command":["rm","/tmp/\u0430"],"env":{"A":"\u202e"},"encoding":"utf8",
      "input":"x\ny","metadata":{"\u0430":"1"},"files":[{"path":"a.sh","content":"ZWNobyBh",
      "encoding":"base64","executable":true},{"path":"b","content":"/w==","encoding":"base64"}]})")
          ->as_object();
  Escalation e;
  e.id = "ESC-2026-001";
  e.operation = "run";
  const base::json::object shown = shownRequest(e, request, nullptr);
  EXPECT_EQ(shown.at("request"), base::json::value(request)) << "nothing is cut";
  const auto& files = shown.at("files").as_array();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].at("bytes"), 6);
  EXPECT_EQ(files[0].at("executable"), true);
  EXPECT_THAT(std::string(files[0].at("sha256").as_string()), HasSubstr("ce6da0"));
  EXPECT_EQ(files[1].at("text"), false);
  std::vector<std::string> at;
  for (const auto& each : shown.at("unusual").as_array())
    at.emplace_back(each.at("at").as_string());
  EXPECT_THAT(at, ElementsAre("command[1]", "env.A", "metadata.\u0430 (name)"));
}

}  // namespace
}  // namespace cloister::model

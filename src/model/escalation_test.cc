// SPDX-License-Identifier: Apache-2.0
#include "model/escalation.h"

#include <gmock/gmock.h>

namespace cloister::model {
namespace {

using testing::HasSubstr;

base::json::object parsed(const char* text) {
  return base::parseJson(text)->as_object();
}

TEST(Escalation, IdsGrow) {
  EXPECT_EQ(escalationId(2026, 1), "ESC-2026-001");
  EXPECT_EQ(escalationId(2026, 999), "ESC-2026-999");
  EXPECT_EQ(escalationId(2027, 12'345), "ESC-2027-12345");
  for (const char* good : {"ESC-2026-001", "ESC-2027-12345"})
    EXPECT_TRUE(isEscalationId(good)) << good;
  for (const char* bad : {"", "ESC-2026-1", "ESC-26-001", "esc-2026-001", "ESC-2026-001x",
                          "ESC-2026-0011111111111", "ESC-2026-00 1", "ESC-2026", "../ESC-2026-001"})
    EXPECT_FALSE(isEscalationId(bad)) << bad;
}

TEST(Escalation, TextIsSafeToPrint) {
  EXPECT_EQ(safeText("rm -rf /", 100), "rm -rf /");
  EXPECT_EQ(safeText("größe ✓ 漢字", 100), "größe ✓ 漢字");
  EXPECT_EQ(safeText("a\nb\r\tc", 100), "a\\nb\\r\\tc");
  EXPECT_EQ(safeText("\x1b[31mred\x07", 100), "\\x1b[31mred\\x07");
  EXPECT_EQ(safeText("a\\nb", 100), "a\\\\nb") << "an escape cannot be forged";
  EXPECT_EQ(safeText("abc\u202etxt.exe", 100), "abc\\u{202e}txt.exe");
  EXPECT_EQ(safeText("\u2066x\u2069\u200b\u200f\ufeff", 100),
            "\\u{2066}x\\u{2069}\\u{200b}\\u{200f}\\u{feff}");
  EXPECT_EQ(safeText("\u2028\u0085\U000e0041", 100), "\\u{2028}\\u{85}\\u{e0041}");
  EXPECT_EQ(safeText("\xff\xc3(", 100), "\\xff\\xc3(");
  EXPECT_EQ(safeText(std::string_view("\0x", 2), 100), "\\x00x");
}

TEST(Escalation, TextSaysWhatIsLeftOut) {
  EXPECT_EQ(safeText(std::string(100, 'x'), 10), std::string(10, 'x') + " [90 more bytes]");
  EXPECT_EQ(safeText("ab\u202e", 4), "ab [3 more bytes]") << "no escape is cut";
  EXPECT_EQ(safeText("aé", 2), "a [2 more bytes]") << "no character either";
}

TEST(Escalation, RequestsAreRead) {
  const auto write = parseEscalationRequest(
      parsed(R"({"operation":"file_write","path":"/src/auth.rs","reason":"refactoring"})"));
  ASSERT_TRUE(write) << write.error().message;
  EXPECT_EQ(write->subject, "/src/auth.rs");
  const auto run = parseEscalationRequest(
      parsed(R"({"operation":"run","request":{"command":"ls"},"reason":"look"})"));
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(run->run);
}

TEST(Escalation, BadRequestsNameTheField) {
  struct Case {
    const char* body;
    const char* field;
  };
  const Case cases[] = {
      {R"({"operation":"fly","reason":"x"})", "operation"},
      {R"({"reason":"x"})", "operation"},
      {R"({"operation":"file_write","reason":"x"})", "path"},
      {R"({"operation":"file_write","path":"/a"})", "reason"},
      {R"({"operation":"run","reason":"x"})", "request"},
      {R"({"operation":"command","path":"/a","command":"ls","reason":"x"})", "path"},
      {R"({"operation":"file_write","path":"/a","reason":"x","quorum":0})", "quorum"},
      {R"({"operation":"file_write","path":"a\u0000","reason":"x"})", "path"},
  };
  for (const Case& each : cases) {
    const auto refused = parseEscalationRequest(parsed(each.body));
    ASSERT_FALSE(refused) << each.body;
    EXPECT_EQ(refused.error().code, Code::kInvalid) << each.body;
    EXPECT_EQ(refused.error().field, each.field) << each.body;
  }
  EXPECT_FALSE(parseVote(parsed("{}"), true));
  EXPECT_TRUE(parseVote(parsed("{}"), false));
  EXPECT_FALSE(parseAutoApprove(parsed(R"({"auto_approve":"all"})")));
}

TEST(Escalation, EndsAreForGood) {
  using enum EscalationStatus;
  for (const EscalationStatus end : {kDenied, kExpired, kUsed}) {
    for (const EscalationStatus to : {kPending, kApproved, kDenied, kExpired, kUsed})
      EXPECT_FALSE(mayBecome(end, to)) << statusName(end) << " → " << statusName(to);
    EXPECT_EQ(escalationStatusFromName(statusName(end)), end);
  }
  EXPECT_FALSE(mayBecome(kPending, kUsed)) << "nothing runs without an approval";
  EXPECT_TRUE(mayBecome(kApproved, kPending)) << "without a vote that it had";
}

TEST(Display, WithoutTheValuesOfItsEnvironment) {
  EXPECT_EQ(withoutValues("run x\n" + environmentLine("A", "1=2") + "\n" +
                          environmentLine("B", "") + "\nenv: [3 more]\ncommand: env: C=3"),
            "run x\nenv: A\nenv: B\nenv: [3 more]\ncommand: env: C=3");
  EXPECT_EQ(withoutValues(environmentLine("A", "1")), "env: A");
  EXPECT_EQ(withoutValues(""), "");
}

}  // namespace
}  // namespace cloister::model

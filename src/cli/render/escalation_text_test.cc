// SPDX-License-Identifier: Apache-2.0
#include "cli/render/escalation_text.h"

#include <gmock/gmock.h>

#include "cli/request_text.h"

namespace cloister::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

base::json::object parsed(const char* text) {
  return base::parseJson(text)->as_object();
}

TEST(EscalationText, TimesAreWords) {
  EXPECT_EQ(timeText(1), "1 second");
  EXPECT_EQ(timeText(59), "59 seconds");
  EXPECT_EQ(timeText(60), "1 minute");
  EXPECT_EQ(timeText(900), "15 minutes");
  EXPECT_EQ(timeText(7200), "2 hours");
  EXPECT_EQ(timeText(7199), "2 hours");
  EXPECT_EQ(timeText(86'400), "1 day");
  EXPECT_EQ(secondsBetween("2026-01-02T03:04:05.678Z", "2026-01-02T05:04:05.678Z"), 7200);
  EXPECT_EQ(secondsBetween("", "2026-01-02T05:04:05.678Z"), 0);
}

TEST(EscalationText, ApprovalsSayWhatGoesOn) {
  const auto granted = parsed(
      R"({"status":"approved","operation":"file_write","subject":"/src/security/auth.rs",
      "requester":{"agent":"junior-agent"},"decided_at":"2026-01-02T03:04:05.000Z",
      "grant_expires_at":"2026-01-02T05:04:05.000Z"})");
  EXPECT_EQ(approvedText(granted),
            "✓ Escalation approved\n   Agent: junior-agent\n"
            "   Operation: file_write to /src/security/auth.rs\n"
            "   Temporary permission granted (expires in 2 hours)\n");
  const auto run = parsed(
      R"({"status":"approved","operation":"run","subject":"command ls","execution_id":"exec_1",
      "decided_at":"2026-01-02T03:04:05.000Z","grant_expires_at":"2026-01-02T05:04:05.000Z"})");
  EXPECT_THAT(approvedText(run), HasSubstr("→ Resuming blocked execution: exec_1\n"));
  for (const char* under_way : {R"({"status":"blocked"})", R"({"status":"completed"})"})
    EXPECT_THAT(approvedText(run, parsed(under_way)), HasSubstr("→ Resuming blocked execution"));
  const auto half = parsed(R"({"status":"pending","operation":"run","approvals":1,"quorum":2})");
  EXPECT_THAT(approvedText(half), HasSubstr("Approvals: 1 of 2"));
  EXPECT_THAT(approvedText(half), Not(HasSubstr("Resuming")));
}

TEST(EscalationText, AnApprovalOfARunThatEndedSaysSo) {
  const auto run = parsed(
      R"({"status":"approved","operation":"run","subject":"command ls","execution_id":"exec_1"})");
  const auto denied = parsed(
      R"({"status":"denied","error":{"type":"PERMISSION_DENIED","message":"bob is closed"}})");
  const std::string text = approvedText(run, denied);
  EXPECT_THAT(text, HasSubstr("→ Execution is denied: bob is closed\n"));
  EXPECT_THAT(text, Not(HasSubstr("Resuming")));
  EXPECT_THAT(text, Not(HasSubstr("Approved for one run")));
  EXPECT_THAT(approvedText(run, parsed(R"({"status":"cancelled"})")), Not(HasSubstr("Resuming")));
}

TEST(EscalationText, AnEscalationThatEndedWithItsRunHasNoTimeLeft) {
  auto ended = parsed(
      R"({"status":"expired","operation":"run","expires_at":"2026-01-02T05:00:00.000Z",
      "grant_expires_at":"2026-01-02T06:00:00.000Z","ended_at":"2026-01-02T04:00:00.000Z",
      "ended_reason":"the run ended as denied: bob is closed"})");
  const std::string text = shownText(ended, 0);
  EXPECT_THAT(text,
              HasSubstr("   Ended: 2026-01-02T04:00:00.000Z, because the run ended as denied: "
                        "bob is closed\n"));
  EXPECT_THAT(text, Not(HasSubstr("xpires")));
  ended["ended_reason"] = nullptr;
  EXPECT_THAT(shownText(ended, 0), HasSubstr("   Expires: 2026-01-02T05:00:00.000Z\n"));
}

TEST(EscalationText, ADenialWithoutAPersonIsTheServices) {
  const auto text = [](const char* decision) {
    return shownText(
        parsed((std::string(R"({"decisions":[{"automatic":true,"decision":")") + decision + "\"}]}")
                   .c_str()),
        0);
  };
  EXPECT_THAT(text("deny"), HasSubstr("Decision: deny by the service at"));
  EXPECT_THAT(text("approve"), HasSubstr("Decision: approve by a rule at"));
}

TEST(EscalationText, APolicySaysWhatTheAgentsRequestsMeet) {
  const auto text = [](const char* more) {
    return policyText(
        parsed((R"({"agent":"a","auto_approve":"none",)" + std::string(more) + "}").c_str()));
  };
  EXPECT_THAT(
      text(R"("set_at":null,"effective":{"auto_approve":"safe","by":"level","level":"standard"})"),
      HasSubstr("Auto-approve: safe (no policy is set; the level standard says so)\n"));
  EXPECT_THAT(
      text(R"("set_at":null,"effective":{"auto_approve":"none","by":"default","level":null})"),
      HasSubstr("Auto-approve: none (no policy is set; the agent has no level)\n"));
  EXPECT_THAT(
      text(R"("set_at":null,"effective":{"auto_approve":"safe","by":"sandbox","level":"x"})"),
      HasSubstr("Auto-approve: safe (no policy is set; the agent's sandbox says so)\n"));
  EXPECT_THAT(
      text(
          R"("set_at":"2026-01-02T03:04:05Z","effective":{"auto_approve":"none","by":"policy","level":"x"})"),
      HasSubstr("Auto-approve: none\n"));
  EXPECT_THAT(
      text(
          R"("set_at":"2026-01-02T03:04:05Z","effective":{"auto_approve":"safe","by":"sandbox","level":"x"})"),
      HasSubstr("safe (the agent's sandbox says so, which goes before the policy none)\n"));
}

TEST(EscalationText, WhatWasGrantedSaysHowLongItHolds) {
  constexpr int64_t kNow = 1'767'323'045;  // 2026-01-02T03:04:05Z
  auto granted = parsed(
      R"({"status":"approved","operation":"file_write","grant_expires_at":"2026-01-02T04:48:06.000Z"})");
  EXPECT_THAT(shownText(granted, kNow), HasSubstr("permission revocation in: 1h 45min\n"));
  EXPECT_THAT(shownText(granted, kNow + 3600), HasSubstr("permission revocation in: 45min\n"));
  EXPECT_THAT(shownText(granted, kNow + 7200), Not(HasSubstr("revocation")));
  granted["status"] = "denied";  // taken back
  EXPECT_THAT(shownText(granted, kNow), Not(HasSubstr("revocation")));
}

TEST(EscalationText, WhoDecidedIsNamedByUserOrAgentOrKey) {
  const auto told = [](const char* principal) {
    const std::string decision =
        std::string(R"({"decision":"approve","revoked":true,"principal":)") + principal +
        R"(,"credential":"key_1"})";
    return shownText(parsed((R"({"decisions":[)" + decision + "]}").c_str()), 0) +
           approvedText(parsed((R"({"decisions":[)" + decision + "]}").c_str()));
  };
  const std::string key = told(R"({"tenant":"acme","agent":"","user":""})");
  EXPECT_THAT(key, HasSubstr("Decision: approve by key_1 at"));
  EXPECT_THAT(key, HasSubstr("the vote of key_1, whose"));
  EXPECT_THAT(key, Not(HasSubstr("acme")));
  EXPECT_THAT(told(R"({"tenant":"acme","agent":"a","user":"boss"})"), HasSubstr("by boss at"));
  EXPECT_THAT(told(R"({"tenant":"acme","agent":"a","user":""})"), HasSubstr("by a at"));
  const auto set = parsed(
      R"({"agent":"a","auto_approve":"none","set_by":{"tenant":"acme","agent":"","user":""},
      "set_by_credential":"key_2"})");
  EXPECT_THAT(policyText(set), HasSubstr("Set by: key_2\n"));
}

TEST(EscalationText, StruckVotesAreNamed) {
  const auto half = parsed(
      R"({"status":"pending","operation":"run","approvals":1,"quorum":2,"decisions":[
      {"decision":"approve","principal":{"user":"boss"},"revoked":true},
      {"decision":"approve","principal":{"user":"chief"},"revoked":false}]})");
  EXPECT_THAT(approvedText(half),
              HasSubstr("   Does not count: the vote of boss, whose credential was revoked\n"));
  EXPECT_THAT(approvedText(half), Not(HasSubstr("the vote of chief")));
}

TEST(EscalationText, TheWholeRequestIsShownAndMarked) {
  const auto shown = parsed(
      R"({"request":{"code":"one\ntwo\u202e\n","command":["rm","-rf","/tmp/\u0430"],"env":{"A":"1"},
      "files":[{"path":"a.sh","content":"/w==","encoding":"base64","executable":true}],"input":"",
      "metadata":{},"encoding":"utf8"},"unusual":[{"at":"command[2]","offset":5,"codepoint":"U+0430",
      "what":"Cyrillic"}],"unusual_left_out":2})");
  const std::string text = requestText(shown);
  EXPECT_THAT(text, HasSubstr("     | one\n     | two\\u{202e}\n"));
  EXPECT_THAT(text, HasSubstr("     \"/tmp/\\u{430}\"\n"));
  EXPECT_THAT(text, HasSubstr("     A = \"1\"\n"));
  EXPECT_THAT(text, HasSubstr("file \"a.sh\", executable (1 bytes, sha256 "));
  EXPECT_THAT(text, HasSubstr("no text, as base64:\n     | /w==\n"));
  EXPECT_THAT(text, HasSubstr("   input (0 bytes, sha256 "));
  EXPECT_THAT(text, HasSubstr("   metadata: none\n"));
  EXPECT_THAT(text, HasSubstr("command[2], byte 5: U+0430, Cyrillic\n     and 2 more\n"));
}

TEST(EscalationText, TheWorkspaceThatIsBoundIsListed) {
  const auto shown = parsed(
      R"({"request":{},"workspace":{"sha256":"ab12","files":9,"bytes":13,"left_out":7,"names":[
      {"path":"deploy.sh","type":"file","mode":"0644","bytes":13,"sha256":"cd34","target":null},
      {"path":"h","type":"file","mode":"0644","bytes":13,"sha256":"cd34","target":null,
      "modified":"2026-01-02T03:04:05.000000006Z","hard_link_of":"deploy.sh"},
      {"path":"l\\u{430}","type":"link","mode":"0777","bytes":null,"sha256":null,
      "target":"/usr\u001b"}]}})");
  const std::string text = requestText(shown);
  EXPECT_THAT(text, HasSubstr("what is read there now may differ:\n"
                              "     9 files and directories, 13 bytes, sha256 ab12\n"
                              "     0644 file deploy.sh (13 bytes, sha256 cd34)\n"
                              "     0644 file h (13 bytes, sha256 cd34, modified "
                              "2026-01-02T03:04:05.000000006Z, hard link of deploy.sh)\n"
                              "     0777 link l\\u{430} -> /usr"));
  EXPECT_THAT(text, HasSubstr("     and 7 more that are not listed"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(requestText(parsed(R"({"request":{},"workspace":null})")),
              Not(HasSubstr("workspace")));
}

TEST(EscalationText, APathIsMarked) {
  const auto one = parsed(
      R"({"id":"ESC-2026-001","status":"pending","operation":"file_write","subject":"/tmp/\u0430"})");
  EXPECT_THAT(shownText(one, 0), HasSubstr("Operation: file_write to /tmp/\\u{430}\n"));
}

TEST(EscalationText, NothingHostileReachesTheTerminal) {
  const auto hostile = parsed(
      R"({"id":"ESC-2026-001","status":"pending","operation":"run\u001b[2J","subject":"a\nb",
      "reason":"\u001b]0;x\u0007","display":"one\ntwo\u001b[31m"})");
  const std::string text = shownText(hostile, 0);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
  EXPECT_THAT(text, HasSubstr("     one\n     two"));
}

}  // namespace
}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/render/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::cli {
namespace {

namespace json = base::json;
using testing::HasSubstr;

json::object execution(std::string_view text) {
  return base::parseJson(text)->as_object();
}

int statusOf(std::string_view text) {
  return exitStatus(execution(text));
}

TEST(ErrorStatus, FollowsFromTheKind) {
  const std::pair<Code, int> cases[] = {{Code::kInvalid, 2},   {Code::kUnauthorized, 3},
                                        {Code::kDenied, 3},    {Code::kConflict, 3},
                                        {Code::kTooLarge, 3},  {Code::kQuota, 3},
                                        {Code::kNotFound, 4},  {Code::kUnavailable, 125},
                                        {Code::kNoSpace, 125}, {Code::kInternal, 125}};
  for (const auto& [code, status] : cases)
    EXPECT_EQ(errorStatus({code, "", ""}), status) << base::codeName(code);
}

TEST(Verdict, TheProgramsOwnStatusPasses) {
  EXPECT_EQ(statusOf(R"({"status":"completed","exit_code":0,"signal":null})"), 0);
  EXPECT_EQ(statusOf(R"({"status":"completed","exit_code":3,"signal":null})"), 3);
  EXPECT_EQ(statusOf(R"({"status":"completed","exit_code":255,"signal":null})"), 255);
  EXPECT_EQ(statusOf(R"({"status":"completed","exit_code":null,"signal":"SIGSEGV"})"), 139);
  EXPECT_EQ(statusOf(R"({"status":"completed","exit_code":null,"signal":"SIGKILL"})"), 137);
}

TEST(Verdict, TheOthersHaveFixedStatuses) {
  EXPECT_EQ(statusOf(R"({"status":"timed_out","error":{"type":"TIMEOUT"}})"), 124);
  const auto limited = [](std::string limit, std::string signal) {
    return statusOf(R"({"status":"failed","signal":)" + signal +
                    R"(,"error":{"type":"RESOURCE_LIMIT_EXCEEDED","details":{"limit":")" + limit +
                    R"("}}})");
  };
  EXPECT_EQ(limited("memory_mb", "null"), 137);
  EXPECT_EQ(limited("memory_mb", "\"SIGTERM\""), 137);
  EXPECT_EQ(limited("cpu_seconds", "null"), 137);
  EXPECT_EQ(limited("file_size_mb", "\"SIGXFSZ\""), 153);
  EXPECT_EQ(statusOf(R"({"status":"failed","error":{"type":"RUNNER_LOST"}})"), 125);
  EXPECT_EQ(statusOf(R"({"status":"denied","error":{"type":"PERMISSION_DENIED"}})"), 125);
  EXPECT_EQ(statusOf(R"({"status":"cancelled"})"), 125);
}

TEST(Verdict, NonsenseFromTheServerIsAServiceFailure) {
  EXPECT_EQ(statusOf("{}"), 125);
  EXPECT_EQ(statusOf(R"({"status":"completed"})"), 125);
  EXPECT_EQ(statusOf(R"({"status":"completed","exit_code":"0","signal":"SIGNOTHING"})"), 125);
  EXPECT_EQ(statusOf(R"({"status":["completed"]})"), 125);
}

TEST(Verdict, NamesRefusedDestinationsAndTheirRemedy) {
  const std::string text = explain(execution(
      R"({"status":"completed","exit_code":6,"network":{"connections":1,"bytes_in":0,"bytes_out":0,
          "denied":[{"host":"evil.test","port":443,"transport":"tcp","rule":null,
                     "reason":"No rule names it.","remedy":"Ask for it.","count":2}],
          "denied_left_out":0,"hint":null}})"));
  EXPECT_EQ(
      text,
      "cloister: network: evil.test:443 was refused 2 times: No rule names it.; Ask for it.\n");
}

TEST(Verdict, ShowsWhyAProgramHadNoNetwork) {
  const std::string text = explain(execution(
      R"({"status":"completed","exit_code":6,"network":{"connections":0,"bytes_in":0,"bytes_out":0,
          "denied":[],"denied_left_out":0,"hint":"no network; use --allow"}})"));
  EXPECT_EQ(text, "cloister: network: no network; use --allow\n");
  EXPECT_EQ(explain(execution(R"({"status":"completed","exit_code":0})")), "") << "an old server";
}

TEST(Verdict, RefusalsOfASandboxSayWhatCanBeDone) {
  const std::string text = explain(execution(
      R"({"status":"denied","error":{"type":"PERMISSION_DENIED","message":"no sudo","details":{
          "level":"standard","operation":"command_execution","reason":"no sudo","words":"sudo\u001b ls",
          "escalation_available":true,"human_approval":true,"mitigations":["run it without sudo"]}}})"));
  EXPECT_THAT(text, HasSubstr("Operation blocked: command_execution\n"));
  EXPECT_THAT(text, HasSubstr("Reason: no sudo (level standard)"));
  EXPECT_THAT(text, HasSubstr("Words: \"sudo? ls\""));
  EXPECT_THAT(text, HasSubstr("1. Request an escalation (a person approves it)\n"
                              "   2. run it without sudo\n"));
  EXPECT_EQ(explain(execution(R"({"status":"denied","error":{"type":"PERMISSION_DENIED",
      "message":"no rule"}})")),
            "cloister: the run was denied: no rule\n");
}

TEST(Verdict, ARefusalByAnotherAgentsRulesNamesThatAgent) {
  const std::string text = explain(execution(
      R"({"status":"denied","error":{"type":"PERMISSION_DENIED","message":"no wc","details":{
          "level":"standard","agent":"alice","outcome":"agent_boundary","operation":"command_execution",
          "reason":"no wc","escalation_available":false,"mitigations":["do without it"]}}})"));
  EXPECT_THAT(text, HasSubstr("Reason: no wc (level standard of agent alice)"));
  EXPECT_THAT(text, HasSubstr("1. do without it\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("sandbox changed")));
}

TEST(Verdict, ExplanationsSayWhatAndHowToRaiseIt) {
  const std::string text = explain(execution(
      R"({"status":"failed","id":"exec_1","stdout_truncated":true,
          "error":{"type":"RESOURCE_LIMIT_EXCEEDED","message":"memory\u001b[2J","details":{"limit":"memory_mb"}}})"));
  EXPECT_THAT(text, HasSubstr("the run was stopped: memory?[2J (--memory)"));
  EXPECT_THAT(text, HasSubstr("stdout was cut off at its limit"));
  const std::string told = explain(execution(
      R"({"status":"timed_out","error":{"type":"TIMEOUT","message":"raise timeout_seconds if it needs more",
          "details":{"limit":"timeout_seconds"}}})"));
  EXPECT_THAT(told, HasSubstr("raise --timeout if it needs more\n")) << "the flag once";
  EXPECT_EQ(explain(execution(R"({"status":"completed","exit_code":1,"error":null})")), "");
  EXPECT_THAT(explain(execution(R"({"status":"completed","signal":"SIGSEGV"})")),
              HasSubstr("killed by SIGSEGV"));
}

}  // namespace
}  // namespace cloister::cli

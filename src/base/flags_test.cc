// SPDX-License-Identifier: Apache-2.0
#include "base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/nearest.h"

namespace cloister::base {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Flag kKnown[] = {
    {.name = "json", .value = "", .help = "print JSON"},
    {.name = "code", .value = "CODE", .help = "code", .letter = 'c'},
    {.name = "timeout", .value = "SECONDS", .help = "limit"},
    {.name = "env", .value = "NAME=VALUE", .help = "environment", .letter = 'e', .many = true},
    {.name = "private", .value = "", .help = ""},
};

Result<Flags> parse(std::vector<std::string> arguments) {
  return Flags::parse(kKnown, arguments);
}

std::string problem(std::vector<std::string> arguments) {
  const auto flags = parse(std::move(arguments));
  return flags ? "" : flags.error().message;
}

TEST(Flags, EverySpelling) {
  const auto flags = parse({"--timeout=3", "a", "-c", "x=1", "--env", "A=b=c", "-eB=", "--json",
                            "b", "--", "--json", "--"});
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->text("timeout"), "3");
  EXPECT_EQ(flags->text("code"), "x=1");
  EXPECT_THAT(flags->all("env"), ElementsAre("A=b=c", "B="));
  EXPECT_TRUE(flags->has("json"));
  EXPECT_FALSE(flags->has("private"));
  EXPECT_THAT(flags->operands(), ElementsAre("a", "b"));
  EXPECT_THAT(flags->rest(), ElementsAre("--json", "--"));
}

TEST(Flags, ADashIsAnOperandAndAValueMayStartWithOne) {
  const auto flags = parse({"-", "-c", "-1"});
  ASSERT_TRUE(flags);
  EXPECT_THAT(flags->operands(), ElementsAre("-"));
  EXPECT_EQ(flags->text("code"), "-1");
}

TEST(Flags, RefusalsNameTheFlag) {
  EXPECT_THAT(problem({"--tiemout", "3"}), HasSubstr("did you mean --timeout?"));
  EXPECT_THAT(problem({"-z"}), HasSubstr("-z: unknown flag"));
  EXPECT_THAT(problem({"--code"}), HasSubstr("--code: needs a value, CODE"));
  EXPECT_THAT(problem({"--json=yes"}), HasSubstr("--json: takes no value"));
  EXPECT_THAT(problem({"-c", "1", "--code", "2"}), HasSubstr("--code: given twice"));
  EXPECT_EQ(problem({"--json", "--json"}), "");
}

TEST(Flags, SwitchesShareAWord) {
  constexpr Flag kSwitches[] = {{.name = "interactive", .value = "", .help = "x", .letter = 'i'},
                                {.name = "tty", .value = "", .help = "x", .letter = 't'},
                                {.name = "code", .value = "CODE", .help = "x", .letter = 'c'}};
  const std::vector<std::string> both = {"-it", "-itcx"};
  const auto flags = Flags::parse(kSwitches, both);
  ASSERT_TRUE(flags);
  EXPECT_TRUE(flags->has("interactive"));
  EXPECT_TRUE(flags->has("tty"));
  EXPECT_EQ(flags->text("code"), "x");
  const std::vector<std::string> wrong = {"-iz"};
  EXPECT_THAT(Flags::parse(kSwitches, wrong).error().message, HasSubstr("-z: unknown flag"));
}

TEST(Flags, ChoicesAreListed) {
  constexpr Flag kTier[] = {
      {.name = "network", .value = "TIER", .help = "x", .choices = "none api full"}};
  const std::vector<std::string> good = {"--network", "API"};
  EXPECT_EQ(Flags::parse(kTier, good)->text("network"), "api");
  const std::vector<std::string> wrong = {"--network", "internet"};
  EXPECT_EQ(Flags::parse(kTier, wrong).error().message,
            "--network: must be none, api or full, not \"internet\"");
}

TEST(Flags, OtherWordsAreAcceptedOrSuggested) {
  constexpr FlagWord kWords[] = {{"--timeout-minutes", "timeout", true, "m"},
                                 {"--wall", "timeout"},
                                 {"-m", "memory"},
                                 {"--code", "timeout", true}};
  const auto parsed = [&](std::vector<std::string> arguments) {
    return Flags::parse(kKnown, arguments, kWords);
  };
  EXPECT_EQ(parsed({"--timeout-minutes", "3"})->text("timeout"), "3m");
  EXPECT_EQ(parsed({"--timeout-minutes=3h"})->text("timeout"), "3h");
  EXPECT_EQ(parsed({"--code", "3"})->text("code"), "3") << "a known flag is no word";
  EXPECT_THAT(parsed({"--wall", "3"}).error().message, HasSubstr("did you mean --timeout?"));
  EXPECT_EQ(parsed({"-m", "3"}).error().message, "-m: unknown flag") << "memory is not known here";
}

TEST(Flags, NumbersAreWholeAndInRange) {
  const auto flags = parse({"--timeout", "1.5", "-c", "7x"});
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->number("timeout", 0, 10).value(), 1.5);
  EXPECT_THAT(flags->number("timeout", 2, 10).error().message, HasSubstr("from 2 to 10"));
  EXPECT_FALSE(flags->integer("timeout", 0, 10));
  EXPECT_FALSE(flags->integer("code", 0, 10));
  EXPECT_EQ(flags->integer("env", 0, 10).value(), std::nullopt);
}

TEST(NearestName, IsCloseOrNothing) {
  const std::vector<std::string> names = {"http.body_bytes", "run.queue", "run.queue_per_tenant"};
  EXPECT_EQ(nearestName("http.bodybytes", names), "http.body_bytes");
  EXPECT_EQ(nearestName("run.qeue", names), "run.queue");
  EXPECT_EQ(nearestName("colour", names), "");
  const std::vector<std::string> fields = {
      "language", "code", "timeout_seconds", "memory_mb",  "env",
      "command",  "deps", "input",           "cpu_millis", "network_policy"};
  for (const auto& [word, meant] : {std::pair{"lang", "language"},
                                    {"timeout", "timeout_seconds"},
                                    {"memory", "memory_mb"},
                                    {"env_vars", "env"},
                                    {"envVars", "env"},
                                    {"cmd", "command"},
                                    {"stdin", "input"},
                                    {"packages", "deps"},
                                    {"cpus", "cpu_millis"},
                                    {"internet", "network_policy"},
                                    {"timeoutSeconds", "timeout_seconds"},
                                    {"comand", "command"},
                                    {"zebra", ""}})
    EXPECT_EQ(meantName(word, fields), meant) << word;
  EXPECT_EQ(meantName("--lang", {"--language", "--timeout"}), "--language");
  EXPECT_EQ(meantName("--time-limit", {"--language", "--timeout"}), "--timeout");
  EXPECT_EQ(nearestName(std::string(4096, 'a'), names), "");
}

}  // namespace
}  // namespace cloister::base

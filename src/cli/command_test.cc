// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_body.h"

namespace cloister::cli {
namespace {

using testing::HasSubstr;

TEST(Commands, EachIsComplete) {
  std::set<std::string_view> names;
  for (const Command* command : commands()) {
    EXPECT_TRUE(names.insert(command->name).second) << command->name;
    EXPECT_FALSE(command->summary.empty()) << command->name;
    EXPECT_NE(command->run, nullptr) << command->name;
    EXPECT_EQ(command->max_operands > 0, !command->operands.empty()) << command->name;
    EXPECT_THAT(helpFor(*command), HasSubstr(command->summary));
    EXPECT_THAT(generalHelp(), HasSubstr(command->name));
    std::set<std::string_view> flags;
    std::set<char> letters;
    std::vector<base::Flag> all(command->flags.begin(), command->flags.end());
    all.insert(all.end(), globalFlags().begin(), globalFlags().end());
    for (const base::Flag& flag : all) {
      EXPECT_TRUE(flags.insert(flag.name).second) << command->name << " --" << flag.name;
      if (flag.letter != 0) EXPECT_TRUE(letters.insert(flag.letter).second) << flag.letter;
    }
  }
}

TEST(Commands, CompletionKnowsThemAll) {
  for (const std::string_view shell : {"bash", "zsh", "fish"}) {
    const auto script = completionScript(shell);
    ASSERT_TRUE(script);
    for (const Command* command : commands()) {
      const size_t space = command->name.find(' ');
      EXPECT_THAT(*script, HasSubstr(std::string(command->name.substr(0, space))));
      EXPECT_THAT(*script,
                  HasSubstr(std::string(command->name.substr(command->name.rfind(' ') + 1))));
      for (const base::Flag& flag : command->flags) {
        if (!flag.help.empty()) EXPECT_THAT(*script, HasSubstr(std::string(flag.name)));
      }
    }
    EXPECT_EQ(script->find("lifeline"), std::string::npos);
  }
  EXPECT_FALSE(completionScript("tcsh"));
}

TEST(Commands, CompletionStepsIntoGroupsWithinGroups) {
  const std::string bash = completionScript("bash").value();
  EXPECT_THAT(bash, HasSubstr("\"session memory\") candidates=\"list get set delete\""));
  EXPECT_THAT(bash, HasSubstr("kernels memory snapshot"));
  EXPECT_THAT(bash, HasSubstr("\"session memory set\") flags+=\" --text\""));
  const std::string fish = completionScript("fish").value();
  EXPECT_THAT(fish, HasSubstr("-n '__fish_seen_subcommand_from session; and "
                              "__fish_seen_subcommand_from memory' -f -a delete"));
  EXPECT_THAT(fish, HasSubstr("-n '__fish_seen_subcommand_from session' -f -a memory -d 'see"));
}

TEST(Commands, SandboxIsAnotherWordForAgent) {
  EXPECT_EQ(runCommandLine({"agent", "create", "--help"}), 0);
  EXPECT_EQ(runCommandLine({"sandbox", "create", "--help"}), 0);
  EXPECT_EQ(runCommandLine({"--json", "sandbox", "create", "--help"}), 0);
  EXPECT_EQ(runCommandLine({"help", "sandbox", "create"}), 0);
  EXPECT_EQ(runCommandLine({"sandbox", "--help"}), 0);
  EXPECT_EQ(runCommandLine({"sandbox"}), 2);
  EXPECT_EQ(runCommandLine({"sandbox", "sandbox"}), 2);
  EXPECT_THAT(generalHelp(), HasSubstr("sandbox               the same as `agent`"));
  const auto all = commands();
  const auto create =
      std::ranges::find(all, "agent create", [](const Command* each) { return each->name; });
  ASSERT_NE(create, all.end());
  EXPECT_THAT(helpFor(**create), HasSubstr("`cloister sandbox create` is the same command.\n"));
  EXPECT_THAT(completionScript("bash").value(),
              HasSubstr("== sandbox ]]; then words[0]=agent; fi"));
  EXPECT_THAT(completionScript("fish").value(),
              HasSubstr("-n '__fish_seen_subcommand_from agent sandbox' -f -a create"));
}

TEST(Commands, UsageErrors) {
  EXPECT_EQ(runCommandLine({}), 2);
  EXPECT_EQ(runCommandLine({"frobnicate"}), 2);
  EXPECT_EQ(runCommandLine({"execution"}), 2);
  EXPECT_EQ(runCommandLine({"session", "memory"}), 2);
  EXPECT_EQ(runCommandLine({"session", "memory", "lst"}), 2);
  EXPECT_EQ(runCommandLine({"session", "memory", "--help"}), 0);
  EXPECT_EQ(runCommandLine({"help", "session", "memory", "list"}), 0);
  EXPECT_EQ(runCommandLine({"version", "extra"}), 2);
  EXPECT_EQ(runCommandLine({"version", "--wrong"}), 2);
  EXPECT_EQ(runCommandLine({"run", "--wrong"}), 125);
  EXPECT_EQ(runCommandLine({"--json", "version"}), 0);
  EXPECT_EQ(runCommandLine({"help", "execution", "list"}), 0);
  EXPECT_EQ(runCommandLine({"--help"}), 0);
}

Result<base::json::object> body(const std::vector<std::string>& arguments, RunSource source = {}) {
  std::vector<base::Flag> known(runFlags().begin(), runFlags().end());
  known.insert(known.end(), globalFlags().begin(), globalFlags().end());
  const auto flags = base::Flags::parse(known, arguments);
  if (!flags) return std::unexpected(flags.error());
  return runBody(*flags, source);
}

TEST(RunBody, FlagsBecomeMembers) {
  const auto made =
      body({"--timeout", "1.5", "--memory", "64", "--cpu", "500", "--pids", "8", "--disk", "32",
            "-e", "A=1", "--network", "none", "-l", "bash", "--", "x", "-y"},
           {.code = "echo", .file_name = "", .input = "in\xff"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(
      base::toJson(*made),
      R"({"language":"bash","code":"echo","input":"aW7/","encoding":"base64","args":["x","-y"],)"
      R"("timeout_seconds":1.5E0,"memory_mb":64,"cpu_millis":500,"pids":8,"disk_mb":32,)"
      R"("env":{"A":"1"},"network_policy":{"tier":"none"},"artifacts":[]})");
}

TEST(RunBody, DestinationsImplyATier) {
  const auto network = [](const std::vector<std::string>& arguments) {
    const auto made = body(arguments);
    const base::json::value* policy = made ? made->if_contains("network_policy") : nullptr;
    return policy == nullptr ? "" : base::toJson(*policy);
  };
  EXPECT_EQ(network({}), "");
  EXPECT_EQ(network({"--allow", "a.test:443", "--allow", "b.test:80"}),
            R"({"tier":"restricted","allow":["a.test:443","b.test:80"]})");
  EXPECT_EQ(network({"--network", "internal", "--allow", "a.test:443"}),
            R"({"tier":"internal","allow":["a.test:443"]})");
  EXPECT_EQ(network({"--on-denied", "ask"}), R"({"tier":"restricted","on_denied":"ask"})");
}

TEST(RunBody, RefusalsNameTheFlag) {
  EXPECT_THAT(body({"--env", "A"}).error().message, HasSubstr("--env"));
  EXPECT_THAT(body({"--memory", "lots"}).error().message, HasSubstr("--memory"));
  EXPECT_THAT(body({"--memory", "0"}).error().message, HasSubstr("--memory"));
  EXPECT_THAT(body({"--file", "/nonexistent/x"}).error().message, HasSubstr("/nonexistent/x"));
  EXPECT_THAT(body({}, {.code = "\xff", .file_name = "", .input = {}}).error().message,
              HasSubstr("UTF-8"));
}

TEST(RunBody, ArtifactsAreCollectedForWhoWillSeeThem) {
  EXPECT_EQ(body({})->at("artifacts").as_array().size(), 0u);
  EXPECT_FALSE(body({"--json"})->contains("artifacts"));
  EXPECT_FALSE(body({"--out", "d"})->contains("artifacts"));
  EXPECT_EQ(body({"--artifacts", "*.png"})->at("artifacts").as_array().size(), 1u);
}

TEST(LanguageOf, ByExtension) {
  ::setenv("CLOISTER_SHARE", CLOISTER_SOURCE_DIR, 1);
  EXPECT_EQ(languageOf("a.py"), "python");
  EXPECT_EQ(languageOf("dir.js/script"), "python");
  EXPECT_EQ(languageOf("a.sh"), "bash");
  EXPECT_EQ(languageOf("a.ts"), "typescript");
  EXPECT_EQ(languageOf("a.unknown"), "python");
  ::unsetenv("CLOISTER_SHARE");
}

}  // namespace
}  // namespace cloister::cli

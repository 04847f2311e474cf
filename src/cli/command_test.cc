// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/completions.h"
#include "cli/run_body.h"

namespace cloister::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Commands, EachIsComplete) {
  ::setenv("COLUMNS", "1000", 1);  // help in whole lines
  std::set<std::string_view> names;
  for (const Command* command : commands()) {
    EXPECT_TRUE(names.insert(command->name).second) << command->name;
    EXPECT_FALSE(command->summary.empty()) << command->name;
    EXPECT_NE(command->run, nullptr) << command->name;
    EXPECT_EQ(command->max_operands > 0, !command->operands.empty()) << command->name;
    EXPECT_THAT(helpFor(*command), HasSubstr(command->summary));
    const size_t space = command->name.rfind(' ');
    const Group* group =
        space == std::string_view::npos ? nullptr : findGroup(command->name.substr(0, space));
    // `mcp` is a command itself, and lists `mcp install` as one of its own.
    const bool below = command->name.starts_with("mcp ");
    EXPECT_EQ(group == nullptr, space == std::string_view::npos || below) << command->name;
    const std::string word(group == nullptr ? command->name : command->name.substr(space + 1));
    if (!below) {
      EXPECT_THAT(group == nullptr ? generalHelp() : groupHelp(*group),
                  HasSubstr("  " + word + " "));
    }
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

TEST(Commands, EachGroupHasCommandsAndAPlaceInTheHelp) {
  ::setenv("COLUMNS", "1000", 1);  // help in whole lines
  for (const Group& group : groups()) {
    const std::string name(group.name);
    EXPECT_TRUE(std::ranges::any_of(commands(), [&](const Command* command) {
      return command->name.starts_with(name + " ");
    })) << name;
    EXPECT_THAT(groupHelp(group), HasSubstr(group.summary));
    const size_t space = name.find(' ');
    EXPECT_THAT(
        space == std::string::npos ? generalHelp() : groupHelp(*findGroup(name.substr(0, space))),
        HasSubstr(group.summary));
  }
}

TEST(Commands, HelpFitsTheScreen) {
  ::setenv("COLUMNS", "80", 1);
  const auto fits = [](const std::string& help) {
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      const bool free = line.starts_with("  cloister") || line.starts_with("cloister ") ||
                        line.contains("docs/ is in") ||     // usage, examples, a path
                        line.contains("NAME=broker:HOST");  // one word
      EXPECT_TRUE(free || line.size() <= 80) << line;
    }
  };
  fits(generalHelp());
  for (const Group& group : groups())
    fits(groupHelp(group));
  for (const Command* command : commands()) {
    const std::string help = helpFor(*command);
    fits(help.substr(0, help.find("\nExamples:")));
  }
}

TEST(Commands, VerbsOfOtherToolsAreKnown) {
  EXPECT_EQ(splitCommand({"session", "ls"}).name(), "session list");
  EXPECT_EQ(splitCommand({"session", "delete", "x"}).name(), "session rm");
  EXPECT_EQ(splitCommand({"image", "rm", "x"}).name(), "image remove");
  EXPECT_EQ(splitCommand({"secret", "add", "x"}).name(), "secret set");
  EXPECT_EQ(splitCommand({"execution", "inspect", "x"}).name(), "execution show");
  EXPECT_EQ(splitCommand({"execution", "kill", "x"}).name(), "execution cancel");
  EXPECT_EQ(splitCommand({"session", "memory", "rm", "x"}).name(), "session memory delete");
  EXPECT_EQ(splitCommand({"sandbox", "get"}).name(), "agent show");
  EXPECT_EQ(splitCommand({"-o", "json", "session", "list"}).name(), "session list");
  EXPECT_EQ(splitCommand({"session", "frobnicate"}).name(), "session frobnicate");
}

TEST(Completions, StepThroughTheTable) {
  const auto words = [](std::vector<std::string> typed) {
    return completionOf(std::move(typed)).words;
  };
  const auto objects = [](std::vector<std::string> typed) {
    return completionOf(std::move(typed)).objects;
  };
  EXPECT_THAT(words({""}), AllOf(Contains("run"), Contains("session"), Contains("sandbox")));
  EXPECT_THAT(words({"session", ""}), AllOf(Contains("create"), Contains("memory")));
  EXPECT_THAT(words({"session", "memory", ""}), ElementsAre("list", "get", "set", "delete"));
  EXPECT_THAT(words({"sandbox", ""}), Contains("create"));
  EXPECT_THAT(words({"run", "--"}), AllOf(Contains("--memory"), Contains("--json")));
  EXPECT_THAT(words({"run", "--network", ""}),
              ElementsAre("none", "restricted", "internal", "api", "full"));
  EXPECT_THAT(words({"run", "--network", "=", "r"}), Contains("restricted"));
  EXPECT_THAT(words({"session", "list", "--status", "r"}), Contains("running"));
  EXPECT_THAT(words({"-o", ""}), ElementsAre("json", "yaml", "wide"));
  EXPECT_THAT(words({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_EQ(objects({"exec", ""}), "session");
  EXPECT_EQ(objects({"session", "rm", "ses_1", ""}), "session");
  EXPECT_EQ(objects({"session", "show", "ses_1", ""}), "") << "it takes one";
  EXPECT_EQ(objects({"execution", "logs", ""}), "execution");
  EXPECT_EQ(objects({"agent", "show", "--agent", ""}), "agent");
  EXPECT_EQ(objects({"run", "--image", ""}), "image");
  EXPECT_EQ(objects({"escalation", "approve", ""}), "escalation");
  EXPECT_EQ(objects({"exec", "ses_1", "--", ""}), "") << "a command of the session";
  EXPECT_TRUE(words({"frobnicate", ""}).empty());
  EXPECT_EQ(completionOf({"exec", "--url", "http://a.test", ""}).globals.url, "http://a.test");
  for (const std::string& word : words({"serve", "--"}))
    EXPECT_NE(word, "--lifeline") << "is hidden";
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
  EXPECT_THAT(groupHelp(*findGroup("agent")), HasSubstr("`cloister sandbox` is the same group."));
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
      body({"--timeout", "1500ms", "--memory", "64MB", "--cpu", "0.5", "--pids", "8", "--disk",
            "32m", "-e", "A=1", "--network", "none", "-l", "bash", "--", "x", "-y"},
           {.code = "echo", .file_name = "", .input = "in\xff"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(
      base::toJson(*made),
      R"({"language":"bash","code":"echo","input":"aW7/","encoding":"base64","args":["x","-y"],)"
      R"("timeout_seconds":1.5E0,"memory_mb":64,"disk_mb":32,"cpu_millis":500,"pids":8,)"
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
  EXPECT_FALSE(body({"-o", "yaml"})->contains("artifacts"));
  EXPECT_TRUE(body({"-o", "wide"})->contains("artifacts"));
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

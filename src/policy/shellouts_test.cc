// SPDX-License-Identifier: Apache-2.0
// The score of commands, of code that runs commands, and of the shipped documents.
#include "policy/shellouts.h"

#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_testing.h"
#include "policy/warnings.h"

namespace cloister::policy {
namespace {

using ::testing::AllOf;
using testing::asking;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::shippedPolicy;
using Words = std::vector<std::string>;

std::vector<std::string> found(std::string_view language, std::string_view code) {
  std::vector<std::string> all;
  for (const ShellOut& each : shellOutsOf(language, code)) {
    std::string shown;
    if (const auto* text = std::get_if<std::string>(&each)) shown = *text;
    if (const auto* words = std::get_if<Words>(&each)) {
      for (const std::string& word : *words)
        shown += "<" + word + ">";
    }
    all.push_back(shown);
  }
  return all;
}

TEST(ShellOuts, OfPython) {
  EXPECT_THAT(found("python", "import os\nos.system('rm -rf /')\n"), ElementsAre("rm -rf /"));
  EXPECT_THAT(found("python", "from os import system as s, popen\npopen(f\"sudo ls {x}\").read()"),
              ElementsAre("sudo ls {x}"));
  EXPECT_THAT(found("python",
                    "import subprocess\n"
                    "subprocess.run(['rm', '-rf', '/'], check=True)\n"
                    "subprocess.check_output(\"dd if=/dev/zero of=/dev/sda\", shell=True)\n"
                    "subprocess.Popen(\n    [\"sudo\",  # it says so\n     \"ls\"])\n"
                    "subprocess.run(shlex.split('ls -l'))\n"),
              ElementsAre("<rm><-rf></>", "dd if=/dev/zero of=/dev/sda", "<sudo><ls>", "ls -l"));
  EXPECT_THAT(found("python", "import os\nos.execvp('rm', ['rm', '-rf', '/'])"),
              ElementsAre("<rm><-rf></>"));
  EXPECT_THAT(found("python", "x = 1\n  !rm -rf /\nprint(x)\n"), ElementsAre("rm -rf /"));
  EXPECT_THAT(found("python", "os.system('''ls\n-l''' 'x' + y + \"\\n\")"),
              ElementsAre("ls\n-lx\n"));
}

TEST(ShellOuts, AreCallsAndNothingElse) {
  EXPECT_THAT(found("python",
                    "import os, subprocess\n"
                    "# os.system('rm -rf /')\n"
                    "print(\"os.system('rm -rf /')\")\n"
                    "subprocess.run(command, cwd='/')\n"
                    "subprocess.run([sys.executable, '-c', 'print(1)'])\n"
                    "os.path.join('rm', '-rf')\n"),
              IsEmpty());
  EXPECT_THAT(found("python", "loop.run('rm -rf /')"), IsEmpty()) << "no subprocess is named";
  EXPECT_THAT(found("node", "/x/.exec('sudo ls')"), IsEmpty()) << "no child_process is named";
  EXPECT_THAT(found("bash", "os.system('ls')"), IsEmpty()) << "it is a command as a whole";
  EXPECT_THAT(found("python", "os.system('unfinished"), ElementsAre("unfinished"));
  EXPECT_THAT(found("python", "os.system("), IsEmpty());
}

TEST(ShellOuts, OfTheOtherLanguages) {
  EXPECT_THAT(found("node",
                    "const {execSync, spawn} = require('child_process');\n"
                    "execSync(`rm -rf ${dir}/`); /* execSync('no') */\n"
                    "spawn('sudo', ['ls', '-l']); // spawn('no')\n"),
              ElementsAre("rm -rf ${dir}/", "<sudo><ls><-l>"));
  EXPECT_THAT(found("typescript", "import { exec } from 'node:child_process'; exec(\"rm -rf /\")"),
              ElementsAre("rm -rf /"));
  EXPECT_THAT(
      found("c",
            "if (c == '\"') system(\"rm -rf /\"); execl(\"/bin/rm\", \"rm\", \"-rf\", \"/\", 0);"),
      ElementsAre("rm -rf /", "<rm><-rf></>"));
  EXPECT_THAT(found("go", "import \"os/exec\"\nexec.Command(\"sh\", \"-c\", \"rm -rf /\").Run()"),
              ElementsAre("<sh><-c><rm -rf />"));
  EXPECT_THAT(found("rust", "Command::new(\"rm\").arg(\"-rf\").args([\"/\"]).spawn()"),
              ElementsAre("<rm><-rf></>"));
  EXPECT_THAT(found("java",
                    "Runtime.getRuntime().exec(\"rm -rf /\");"
                    "new ProcessBuilder(\"sudo\", \"ls\").start();"
                    "Runtime.getRuntime().exec(new String[] {\"dd\", \"of=/dev/sda\"});"),
              ElementsAre("rm -rf /", "<sudo><ls>", "<dd><of=/dev/sda>"));
  EXPECT_THAT(
      found("r", "system(\"rm -rf /\") # system(\"no\")\nsystem2(\"rm\", c(\"-rf\", \"/\"))"),
      ElementsAre("rm -rf /", "<rm><-rf></>"));
}

// --- the shipped documents ---

std::string questionOf(const std::string& language, const std::string& text,
                       const std::string& more = "") {
  base::json::object request;
  request[language == "command" ? "command" : "code"] = text;
  if (language != "command") request["language"] = language;
  return "{\"request\":" + base::toJson(request) + more + "}";
}

Evaluation evaluated(const Policy& policy, const Supposed& supposed) {
  return evaluate(policy, supposed.question());
}

constexpr char kAllRuntimes[] = R"(,"runtimes":["process","gvisor","microvm"])";
constexpr char kAsAdmin[] = R"(,"principal":{"tenant":"acme","roles":["admin"]})";

// tests/data/agent_commands.txt: a command a line, with \n for a newline.
std::vector<std::string> ordinaryCommands() {
  std::vector<std::string> all;
  std::istringstream text(
      base::readFile(CLOISTER_SOURCE_DIR "/tests/data/agent_commands.txt").value());
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::string command;
    for (size_t i = 0; i < line.size(); ++i) {
      const bool escape = line[i] == '\\' && i + 1 < line.size();
      if (escape) ++i;
      command += escape && line[i] == 'n' ? '\n' : line[i];
    }
    all.push_back(std::move(command));
  }
  return all;
}

TEST(DefaultPolicy, OrdinaryCommandsAreAuto) {
  const Policy policy = shippedPolicy("default");
  const std::vector<std::string> commands = ordinaryCommands();
  ASSERT_EQ(commands.size(), 1000U);
  std::string others;
  int highest = 0;
  for (const std::string& command : commands) {
    for (const std::string language : {"command", "bash"}) {
      const Supposed supposed = asking().suppose(questionOf(language, command, kAsAdmin));
      const Evaluation made = evaluated(policy, supposed);
      highest = std::max(highest, made.score);
      if (!made.denied && made.tier == Tier::kAuto && made.runtime == "process") continue;
      others += command + ": " + std::to_string(made.score) + "\n";
    }
  }
  EXPECT_EQ(others, "");
  EXPECT_LE(highest, 45);
}

TEST(DefaultPolicy, OrdinaryCodeIsAuto) {
  const Policy policy = shippedPolicy("default");
  const std::pair<std::string, std::string> programs[] = {
      {"python",
       "import os, subprocess\nprint(subprocess.run(['ls', '-la'], capture_output=True))"},
      {"python", "import os\nos.system('git status && python3 -m pytest -q')"},
      {"node", "require('child_process').execSync('npm test')"},
      {"bash", "for f in *.py; do python3 \"$f\" || exit 1; done"},
  };
  const std::string secrets =
      R"(,"env":{"OPENAI_API_KEY":"x","GITHUB_TOKEN":"y","DB_PASSWORD":"z"})";
  for (const auto& [language, code] : programs) {
    std::string question = questionOf(language, code, kAsAdmin);
    question.insert(question.find(",\"principal\"") - 1, secrets);
    const Supposed supposed = asking().suppose(question);
    EXPECT_EQ(evaluated(policy, supposed).tier, Tier::kAuto) << question;
  }
}

TEST(DefaultPolicy, WhatScoresHighWantsGvisor) {
  const Policy policy = shippedPolicy("default");
  for (const auto& [language, text] : std::initializer_list<std::pair<std::string, std::string>>{
           {"command", "sudo rm -rf /; dd of=/dev/sda"},
           {"bash", "sudo rm -rf /; dd of=/dev/sda"},
           {"python", "import os\nos.system('rm -rf /')"},
           {"python", "import subprocess\nsubprocess.run(['rm', '-rf', '/'])"},
           {"node", "require('child_process').execSync('rm -rf /')"}}) {
    const Supposed here = asking().suppose(questionOf(language, text));
    const Evaluation made = evaluated(policy, here);
    EXPECT_EQ(made.tier, Tier::kAssisted) << text << ": " << made.score;
    ASSERT_TRUE(made.denied) << text;
    EXPECT_THAT(made.denied->reason, HasSubstr("gvisor"));
    EXPECT_THAT(made.denied->remedy, HasSubstr("runsc"));
    const Supposed there = asking().suppose(questionOf(language, text, kAllRuntimes));
    const Evaluation held = evaluated(policy, there);
    EXPECT_FALSE(held.denied) << text;
    EXPECT_EQ(held.runtime, "gvisor") << text;
    EXPECT_EQ(held.weaker, "");
  }
}

TEST(AllowWeaker, IsNamedAndReplacesOnlyWhatPolicyWants) {
  Policy policy = shippedPolicy("default");
  policy.allow_weaker = true;
  const std::string text = "sudo rm -rf /; dd of=/dev/sda";
  const Supposed here = asking().suppose(questionOf("command", text));
  const Evaluation made = evaluated(policy, here);
  EXPECT_FALSE(made.denied);
  EXPECT_EQ(made.runtime, "process");
  EXPECT_THAT(made.weaker, AllOf(HasSubstr("process in place of gvisor"), HasSubstr("Assisted"),
                                 HasSubstr("policy.allow_weaker")));
  EXPECT_EQ(weakerOf(policy, here.question()), made.weaker);
  for (const char* asked :
       {R"({"request":{"command":"ls","tier":"Assisted"}})",
        R"({"request":{"command":"ls","runtime":"gvisor"}})",
        R"({"request":{"command":"ls","runtime":"microvm"},"runtimes":["process","gvisor"]})"}) {
    const Supposed supposed = asking().suppose(asked);
    EXPECT_TRUE(evaluated(policy, supposed).denied) << asked;
  }
  const Supposed machine = asking().suppose(
      R"({"request":{"command":"ls","tier":"ManualOnly"},"runtimes":["process","gvisor"]})");
  EXPECT_TRUE(evaluated(policy, machine).denied) << "the request asks for it";
  const Policy strict = [] {
    Policy weak = shippedPolicy("strict");
    weak.allow_weaker = true;
    return weak;
  }();
  const Supposed shell =
      asking().suppose(R"({"request":{"command":"ls"},"runtimes":["process","gvisor"]})");
  EXPECT_EQ(evaluated(strict, shell).runtime, "gvisor") << "the strongest that there is";
  EXPECT_NE(evaluated(strict, shell).wanted, nullptr) << "nobody's consent is replaced";
}

TEST(StrictPolicy, HasTheTableOfTheBoundaries) {
  const Policy policy = shippedPolicy("strict");
  EXPECT_THAT(warningsOf(policy, asking().parts()), IsEmpty());
  struct Row {
    std::string request;
    Tier tier;
    std::string_view runtime;
    bool approval;
  };
  const std::string browser =
      R"("language":"python","code":"1","metadata":{"tool_type":"browser_use"})";
  const Row rows[] = {
      {R"("language":"python","code":"1")", Tier::kAuto, "process", false},
      {R"("language":"node","code":"1")", Tier::kAssisted, "gvisor", false},
      {R"("language":"typescript","code":"1")", Tier::kAssisted, "gvisor", false},
      {R"code("language":"python","code":"import os\nos.system('rm -rf /')")code", Tier::kAssisted,
       "gvisor", false},
      {R"("language":"python","code":"1","tier":"HumanApprove")", Tier::kHumanApprove, "gvisor",
       true},
      {R"("command":"ls")", Tier::kManualOnly, "microvm", true},
      {R"("language":"bash","code":"ls")", Tier::kManualOnly, "microvm", true},
      {R"("language":"python","code":"1","metadata":{"tool_type":"shell.execute"})",
       Tier::kManualOnly, "microvm", true},
      {browser, Tier::kManualOnly, "microvm", true},
  };
  for (const Row& row : rows) {
    const Supposed supposed =
        asking().suppose("{\"request\":{" + row.request + "}" + kAllRuntimes + "}");
    const Evaluation made = evaluated(policy, supposed);
    ASSERT_FALSE(made.denied) << row.request << ": " << made.denied->reason;
    EXPECT_EQ(made.tier, row.tier) << row.request;
    EXPECT_EQ(made.runtime, row.runtime) << row.request;
    EXPECT_EQ(made.wanted != nullptr, row.approval) << row.request;
  }
}

}  // namespace
}  // namespace cloister::policy

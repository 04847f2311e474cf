// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "base/file.h"
#include "policy/decide.h"

namespace cloister::policy {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const model::Limits kMax = model::defaultBounds().max;

model::RunRequest requestOf(std::string_view text) {
  const auto body = base::parseJson(text).value();
  return model::parseRunRequest(body.as_object(), model::defaultBounds()).value();
}

model::LanguageSet languages() {
  return model::LanguageSet::load(CLOISTER_SOURCE_DIR "/languages").value();
}

Policy policyOf(std::string_view rules) {
  const std::string text = "version: 1\nrules:\n" + std::string(rules);
  return parsePolicy(text, "test", kMax).value();
}

Policy defaultPolicy() {
  const std::string text = base::readFile(CLOISTER_SOURCE_DIR "/policies/default.yaml").value();
  return parsePolicy(text, "default", kMax).value();
}

Decision decideOn(const Policy& policy, std::string_view body, const std::string& tenant = "acme") {
  const model::RunRequest request = requestOf(body);
  model::Principal principal;
  principal.tenant = tenant;
  return decide(policy, {.request = request,
                         .principal = principal,
                         .execution_id = "exec_1",
                         .permit_id = "permit_1",
                         .spec_sha256 = "aa",
                         .prestart = "",
                         .now = 1000,
                         .valid_for = 500,
                         .language = ruleLanguage(request, languages()),
                         .session_id = ""});
}

bool allowed(const Decision& decision) {
  return std::holds_alternative<model::Permit>(decision);
}

constexpr std::string_view kPython = R"({"language":"python","code":"1"})";

TEST(Policy, TheDefaultAllowsCodeWithoutANetwork) {
  const Decision decision = decideOn(defaultPolicy(), kPython);
  ASSERT_TRUE(allowed(decision));
  const model::PermitFields& permit = std::get<model::Permit>(decision).fields();
  EXPECT_EQ(permit.id, "permit_1");
  EXPECT_EQ(permit.execution_id, "exec_1");
  EXPECT_EQ(permit.tenant, "acme");
  EXPECT_THAT(permit.policy_id, ::testing::MatchesRegex("default@sha256:[0-9a-f]{16}"));
  EXPECT_EQ(permit.runtime, "process");
  EXPECT_EQ(permit.image, "host");
  EXPECT_EQ(permit.network_tier, "none");
  EXPECT_EQ(permit.spec_sha256, "aa");
  EXPECT_EQ(permit.not_before, 1000);
  EXPECT_EQ(permit.expires, 1500);
  EXPECT_EQ(permit.limits, requestOf(kPython).limits);
}

// The permit of a program within a sandbox would carry up to 16 KiB that the node does not read.
TEST(Policy, WithinASandboxThePermitLeavesItsRulesToTheSandboxs) {
  const model::RunRequest request = requestOf(kPython);
  model::Principal principal;
  principal.tenant = "acme";
  principal.agent = "coder";
  model::Walls walls;
  walls.hidden = {"/workspace/secrets"};
  for (const bool within : {false, true}) {
    const Decision decision =
        decide(defaultPolicy(), {.request = request,
                                 .principal = principal,
                                 .execution_id = "exec_1",
                                 .permit_id = "permit_1",
                                 .spec_sha256 = "aa",
                                 .prestart = "",
                                 .now = 1000,
                                 .valid_for = 500,
                                 .language = ruleLanguage(request, languages()),
                                 .session_id = within ? "ses_1" : "",
                                 .inside = within ? "process" : "",
                                 .walls = &walls,
                                 .agent_cpu_millis = 250});
    ASSERT_TRUE(allowed(decision));
    const model::PermitFields& permit = std::get<model::Permit>(decision).fields();
    EXPECT_EQ(permit.walls == model::Walls(), within);
    EXPECT_EQ(permit.agent_cpu_millis, within ? 0U : 250U);
    EXPECT_EQ(permit.agent, within ? "" : "coder");
  }
}

TEST(Policy, WhatNoNodeCanDoIsDeniedWithARemedy) {
  const Policy anything =
      policyOf("  - {name: all, why: test, allow: true, runtime: process, image: host}\n");
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"("network_policy":{"tier":"restricted"})", "no destination"},
      {R"("network_policy":{"tier":"full"})", "\"full\""},
      {R"("deps":["numpy"])", "no index of packages"},
      {R"("runtime":"gvisor")", "gvisor"},
      {R"("tier":"Assisted")", "Assisted"},
      {R"("tier":"HumanApprove")", "HumanApprove"},
      {R"("tier":"ManualOnly")", "ManualOnly"},
  };
  for (const auto& [member, word] : cases) {
    const std::string body = R"({"language":"python","code":"1",)" + std::string(member) + "}";
    const Decision decision = decideOn(anything, body);
    ASSERT_FALSE(allowed(decision)) << member;
    EXPECT_THAT(std::get<Denied>(decision).reason, HasSubstr(std::string(word)));
    EXPECT_NE(std::get<Denied>(decision).remedy, "");
  }
  EXPECT_TRUE(allowed(
      decideOn(anything, R"({"language":"python","code":"1","runtime":"process","tier":"Auto"})")));
}

TEST(Policy, DependenciesAreForTheRuntimeThatCanHaveThem) {
  static const std::vector<std::string> kRuntimes = {"process", "gvisor", "microvm"};
  model::PackageSettings packages;
  packages.pypi.index = "https://pypi.example/simple";
  const Policy policy =
      policyOf("  - {name: all, why: test, allow: true, runtime: process, image: host}\n");
  for (const std::string& runtime : kRuntimes) {
    const model::RunRequest request = requestOf(
        R"({"language":"python","code":"1","deps":["numpy"],"runtime":")" + runtime + "\"}");
    const model::Principal principal;
    const auto denied = refusalOf(decide(policy, {.request = request,
                                                  .principal = principal,
                                                  .execution_id = "exec_1",
                                                  .permit_id = "permit_1",
                                                  .spec_sha256 = "aa",
                                                  .prestart = "",
                                                  .now = 1000,
                                                  .valid_for = 500,
                                                  .language = "python",
                                                  .session_id = "",
                                                  .runtimes = &kRuntimes,
                                                  .packages = &packages}));
    ASSERT_EQ(denied.has_value(), runtime != "process") << runtime;
    if (!denied) continue;
    EXPECT_THAT(denied->reason, HasSubstr("has no dependency layers"));
    EXPECT_THAT(denied->remedy, HasSubstr("leave deps empty"));
  }
}

TEST(Policy, SilenceDenies) {
  const Policy policy = policyOf(
      "  - {name: c, why: test, allow: true, languages: [c], runtime: process, image: host}\n");
  const Decision decision = decideOn(policy, kPython);
  ASSERT_FALSE(allowed(decision));
  EXPECT_EQ(std::get<Denied>(decision).rule, "");
  EXPECT_THAT(std::get<Denied>(decision).reason, HasSubstr(policy.id));
  EXPECT_FALSE(allowed(decideOn(Policy{}, kPython)));
}

TEST(Policy, TheFirstMatchDecides) {
  const Policy policy = policyOf(R"(
  - {name: not-py, why: no snakes, remedy: use node, allow: false, languages: [python]}
  - {name: not-evil, why: banned, allow: false, tenants: [evil]}
  - {name: all, why: test, allow: true, runtime: process, image: host}
)");
  const Decision python = decideOn(policy, kPython);
  EXPECT_EQ(std::get<Denied>(python).rule, "not-py");
  EXPECT_EQ(std::get<Denied>(python).reason, "no snakes");
  EXPECT_EQ(std::get<Denied>(python).remedy, "use node");
  EXPECT_EQ(std::get<Denied>(decideOn(policy, R"({"command":"ls"})", "evil")).rule, "not-evil");
  EXPECT_TRUE(allowed(decideOn(policy, R"({"command":"ls"})")));
}

// Naming the language differently must not bypass a rule about the language.
TEST(Policy, NeitherAliasNorCommandSlipsPastALanguageRule) {
  const Policy deny = policyOf(R"(
  - {name: not-py, why: no snakes, allow: false, languages: [python]}
  - {name: all, why: test, allow: true, runtime: process, image: host}
)");
  for (const char* name : {"py", "PYTHON", "Python3"}) {
    EXPECT_FALSE(
        allowed(decideOn(deny, R"({"code":"1","language":")" + std::string(name) + "\"}")));
  }
  const Policy only_python = policyOf(
      "  - {name: py, why: test, allow: true, languages: [python], runtime: process, image: "
      "host}\n");
  EXPECT_TRUE(allowed(decideOn(only_python, kPython)));
  EXPECT_FALSE(allowed(decideOn(only_python, R"({"language":"python","command":"ls"})")));
  const Policy commands = policyOf(
      "  - {name: sh, why: test, allow: true, languages: [command], runtime: process, image: "
      "host}\n");
  EXPECT_TRUE(allowed(decideOn(commands, R"({"language":"python","command":"ls"})")));
  EXPECT_FALSE(allowed(decideOn(commands, kPython)));
}

TEST(Policy, AnUnknownLanguageIsNeverAllowed) {
  EXPECT_FALSE(allowed(decideOn(defaultPolicy(), R"({"language":"cobol","code":"1"})")));
}

TEST(Policy, MoreThanARuleAllowsIsDeniedNotClamped) {
  const Policy policy = policyOf(R"(
  - name: small
    why: test
    allow: true
    runtime: process
    image: host
    max: {memory_mb: 256, timeout_seconds: 30, cpu_seconds: 31, pids: 64, cpu_millis: 1000,
          disk_mb: 1024, inodes: 65536, file_size_mb: 1024, open_files: 1024,
          max_output_bytes: 1048576}
)");
  EXPECT_TRUE(allowed(decideOn(policy, kPython)));
  for (const char* member :
       {R"("memory_mb":257)", R"("timeout_seconds":30.5,"cpu_seconds":1)", R"("cpu_seconds":32)",
        R"("pids":65)", R"("cpu_millis":1001,"cpu_seconds":1)", R"("disk_mb":1025)",
        R"("inodes":65537)", R"("file_size_mb":1025)", R"("open_files":1025)",
        R"("max_output_bytes":1048577)"}) {
    const Decision decision =
        decideOn(policy, R"({"language":"python","code":"1",)" + std::string(member) + "}");
    ASSERT_FALSE(allowed(decision)) << member;
    const std::string name = std::string(member).substr(1, std::string(member).find('"', 1) - 1);
    EXPECT_EQ(std::get<Denied>(decision).rule, "small");
    EXPECT_THAT(std::get<Denied>(decision).reason, StartsWith(name));
    EXPECT_THAT(std::get<Denied>(decision).remedy, StartsWith("ask for at most "));
  }
}

TEST(Policy, ARuntimeThatNobodyOffersDenies) {
  const Policy policy =
      policyOf("  - {name: vm, why: test, allow: true, runtime: microvm, image: host}\n");
  EXPECT_EQ(std::get<Denied>(decideOn(policy, kPython)).rule, "vm");
}

TEST(Policy, ABrokenDocumentIsRefusedAndNamesTheKey) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"rules: []", "version"},
      {"version: 3\nrules: []", "version"},
      {"version: 1", "rules"},
      {"version: 1\nrules: []", "rules"},
      {"version: 1\nrules: [a]", "rules[0]"},
      {"version: 1\nextra: 1\nrules: [{}]", "extra"},
      {"version: 1\nrules: [{}]", "rules[0].name"},
      {"version: 1\nrules: [{name: a}]", "rules[0].why"},
      {"version: 1\nrules: [{name: a, why: b}]", "rules[0].allow"},
      {"version: 1\nrules: [{name: a, why: b, allow: sometimes}]", "rules[0].allow"},
      {"version: 1\nrules: [{name: a, why: b, allow: true}]", "rules[0].runtime"},
      {"version: 1\nrules: [{name: a, why: b, allow: true, runtime: c}]", "rules[0].image"},
      {"version: 1\nrules: [{name: a, why: b, allow: false, runtime: c}]", "rules[0].runtime"},
      {"version: 1\nrules: [{name: a, why: b, allow: false, languages: []}]", "rules[0].languages"},
      {"version: 1\nrules: [{name: a, why: b, allow: false, languages: }]", "rules[0].languages"},
      {"version: 1\nrules: [{name: a, why: b, allow: false, language: [c]}]", "rules[0].language"},
      {"version: 1\nrules: [{name: a, why: b, allow: false}, {name: a, why: b, allow: false}]",
       "rules[1].name"},
      {"version: 1\nrules: [{name: a, why: b, allow: true, runtime: c, image: d, max: {memory: "
       "1}}]",
       "rules[0].max.memory"},
      {"version: 1\nrules: [{name: a, why: b, allow: true, runtime: c, image: d, max: {pids: "
       "1000000}}]",
       "rules[0].max.pids"},
      {"not yaml: [", "test"},
  };
  for (const auto& [text, word] : cases) {
    const auto policy = parsePolicy(text, "test", kMax);
    ASSERT_FALSE(policy) << text;
    EXPECT_THAT(policy.error().message, StartsWith("test: "));
    EXPECT_THAT(policy.error().message, HasSubstr(std::string(word))) << text;
  }
}

TEST(Policy, ItsIdChangesWithEveryByte) {
  const std::string rule = "version: 1\nrules: [{name: a, why: b, allow: false}]";
  EXPECT_NE(parsePolicy(rule, "p", kMax)->id, parsePolicy(rule + "\n", "p", kMax)->id);
}

TEST(Resolve, PutsTheCodeBesideItsFiles) {
  const model::ExecSpec spec =
      resolve(requestOf(R"({"language":"py","code":"print(1) ","input":"in","args":["a","b c"],
                            "files":[{"path":"x.txt","content":"x"}],"artifacts":["*.png"],
                            "timeout_seconds":2})"),
              languages())
          .value();
  ASSERT_EQ(spec.files.size(), 2U);
  EXPECT_EQ(spec.files[0].path, "main.py");
  EXPECT_EQ(spec.files[0].content, "print(1) ");
  EXPECT_EQ(spec.files[1].path, "x.txt");
  EXPECT_TRUE(spec.compile.empty());
  EXPECT_THAT(spec.run.argv, ElementsAre("python3", "main.py", "a", "b c"));
  EXPECT_EQ(spec.run.timeout, std::chrono::seconds(2));
  EXPECT_EQ(spec.input, "in");
  EXPECT_THAT(spec.artifacts.globs, ElementsAre("*.png"));
  EXPECT_THAT(spec.env,
              ElementsAre("HOME=/home/user", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin",
                          "PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_RETRIES=0", "PYTHONUNBUFFERED=1",
                          "TMPDIR=/tmp", "npm_config_fetch_retries=0"));
}

TEST(Resolve, TheRequestsEnvironmentWins) {
  const model::ExecSpec spec = resolve(requestOf(R"({"language":"python","code":"1",
                            "env":{"PATH":"/x","PYTHONUNBUFFERED":"","A":"{source}"}})"),
                                       languages())
                                   .value();
  EXPECT_THAT(spec.env,
              ElementsAre("A={source}", "HOME=/home/user", "LANG=C.UTF-8", "PATH=/x",
                          "PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_RETRIES=0",
                          "PYTHONUNBUFFERED=", "TMPDIR=/tmp", "npm_config_fetch_retries=0"));
}

TEST(Resolve, WithANetworkPipAndNpmMayRetry) {
  const model::ExecSpec open = resolve(requestOf(R"({"language":"python","code":"1",
                            "network_policy":{"tier":"restricted"}})"),
                                       languages())
                                   .value();
  EXPECT_THAT(open.env, Not(Contains(StartsWith("PIP_RETRIES="))));
  EXPECT_THAT(open.env, Not(Contains(StartsWith("npm_config_fetch_retries="))));
  const model::ExecSpec own = resolve(requestOf(R"({"language":"python","code":"1",
                            "env":{"PIP_RETRIES":"3"}})"),
                                      languages())
                                  .value();
  EXPECT_THAT(own.env, Contains("PIP_RETRIES=3")) << "the request's own variables win";
}

TEST(Resolve, ACompileStepHasNoneOfTheArguments) {
  const model::ExecSpec spec =
      resolve(requestOf(R"({"language":"c","code":"","args":["{binary}","x"]})"), languages())
          .value();
  ASSERT_EQ(spec.compile.size(), 1U);
  EXPECT_THAT(spec.compile[0].argv, Contains("main.c"));
  EXPECT_THAT(spec.compile[0].argv, ::testing::Not(Contains("x")));
  EXPECT_THAT(spec.run.argv, ElementsAre("/tmp/.cloister-program", "{binary}", "x"));
}

// A separate run removes everything with its sandbox.
TEST(Resolve, CodeInASessionIsRemovedWithAllThatIsMadeOfIt) {
  const auto request =
      requestOf(R"({"language":"c","code":"","files":[{"path":"x","content":""}]})");
  EXPECT_TRUE(resolve(request, languages())->temporary.empty());
  EXPECT_THAT(resolve(request, languages(), "1")->temporary,
              ElementsAre("/workspace/.cloister-1.c", "/tmp/.cloister-program-1",
                          "/tmp/.cloister-build-1"));
  EXPECT_THAT(resolve(requestOf(R"({"language":"py","code":""})"), languages(), "1")->temporary,
              ElementsAre("/workspace/.cloister-1.py"));
}

TEST(Resolve, ALanguageIsToldTheMemoryLimit) {
  const model::ExecSpec spec =
      resolve(requestOf(R"({"language":"java","code":"","memory_mb":512})"), languages()).value();
  EXPECT_THAT(spec.run.argv, Contains("-XX:MaxRAM=512m"));
}

TEST(Resolve, NoPatternIsLeftInAnyLanguage) {
  const model::LanguageSet set = languages();
  for (const model::Language& language : set.all()) {
    const std::string body = R"({"code":"","language":")" + language.name + "\"}";
    const model::ExecSpec spec = resolve(requestOf(body), set).value();
    std::vector<std::string> words = spec.run.argv;
    for (const model::Command& step : spec.compile)
      words.insert(words.end(), step.argv.begin(), step.argv.end());
    for (const std::string& word : words)
      EXPECT_EQ(word.find('{'), std::string::npos) << language.name << ": " << word;
  }
}

TEST(Resolve, RunsCommands) {
  const auto argv = [](std::string_view body) {
    const model::ExecSpec spec = resolve(requestOf(body), languages()).value();
    EXPECT_TRUE(spec.files.empty());
    EXPECT_TRUE(spec.compile.empty());
    return spec.run.argv;
  };
  EXPECT_THAT(argv(R"({"command":"echo $1","args":["a"]})"),
              ElementsAre("bash", "-c", "echo $1", "bash", "a"));
  EXPECT_THAT(argv(R"({"command":["ls","{args}"],"args":["-l"]})"),
              ElementsAre("ls", "{args}", "-l"));
  EXPECT_THAT(argv(R"({"command":["true"],"language":"c"})"), ElementsAre("true"));
}

TEST(Resolve, RefusesUnknownLanguagesAndAFileInTheCodesPlace) {
  const auto unknown = resolve(requestOf(R"({"language":"pyton","code":"1"})"), languages());
  EXPECT_EQ(unknown.error().code, Code::kInvalid);
  EXPECT_EQ(unknown.error().field, "language");
  EXPECT_THAT(unknown.error().message, HasSubstr("did you mean python?"));
  EXPECT_FALSE(resolve(requestOf(R"({"language":"cobol","command":"ls"})"), languages()));
  for (const char* path : {"main.py", "main.py/x"}) {
    const std::string body = R"({"language":"python","code":"1","files":[{"content":"","path":")" +
                             std::string(path) + "\"}]}";
    const auto clash = resolve(requestOf(body), languages());
    ASSERT_FALSE(clash) << path;
    EXPECT_EQ(clash.error().field, "files");
  }
}

// --- images

model::OfferedImage offered(std::string name, bool machines) {
  model::OfferedImage image;
  image.digest = "sha256:" + std::string(64, static_cast<char>('0' + name.size() % 10));
  image.name = std::move(name);
  image.machines = machines;
  return image;
}

constexpr std::string_view kWithImages = R"(version: 2
rules:
  - {name: vm, why: test, match: {languages: [node]}, effect: allow, tier: Auto, runtime: microvm,
     images: ["*"]}
  - {name: data, why: test, match: {languages: [python]}, effect: allow, tier: Auto, image: data,
     images: [py*, host]}
  - {name: own, why: test, effect: allow, tier: Auto}
)";

Decision decideAmong(std::string_view body) {
  static const std::vector<model::OfferedImage> kImages = {
      offered("data", true), offered("py312", false), offered("other", false)};
  static const std::vector<std::string> kRuntimes = {"process", "microvm"};
  const Policy policy = parsePolicy(kWithImages, "test", kMax).value();
  const model::RunRequest request = requestOf(body);
  const model::Principal principal;
  return decide(policy, {.request = request,
                         .principal = principal,
                         .execution_id = "exec_1",
                         .permit_id = "permit_1",
                         .spec_sha256 = "aa",
                         .prestart = "ahead",
                         .language = ruleLanguage(request, languages()),
                         .session_id = "",
                         .runtimes = &kRuntimes,
                         .images = &kImages});
}

std::string imageIn(const Decision& decision) {
  const auto* permit = std::get_if<model::Permit>(&decision);
  if (permit == nullptr) return "denied: " + std::get<Denied>(decision).reason;
  return permit->fields().image;
}

std::string bodyFor(std::string_view language, std::string_view image) {
  return R"({"code":"1","language":")" + std::string(language) + R"(","image":")" +
         std::string(image) + "\"}";
}

TEST(PolicyImages, ARuleSaysWhichUnlessTheRequestMaySayAnother) {
  EXPECT_EQ(imageIn(decideAmong(kPython)), "data@" + offered("data", true).digest);
  EXPECT_EQ(imageIn(decideAmong(bodyFor("python", "py312"))),
            "py312@" + offered("py312", false).digest);
  EXPECT_EQ(imageIn(decideAmong(bodyFor("python", "host"))), "host");
  EXPECT_EQ(imageIn(decideAmong(R"({"language":"bash","code":"1"})")), "host");
  EXPECT_EQ(imageIn(decideAmong(bodyFor("bash", "host"))), "host");
}

TEST(PolicyImages, NoOtherIsHad) {
  EXPECT_THAT(imageIn(decideAmong(bodyFor("python", "other"))),
              HasSubstr("is not one that this rule allows"));
  EXPECT_THAT(imageIn(decideAmong(bodyFor("bash", "data"))),
              HasSubstr("is not one that this rule allows"));
  EXPECT_THAT(imageIn(decideAmong(bodyFor("python", "python9"))), HasSubstr("is not on this node"));
  EXPECT_THAT(imageIn(decideAmong(bodyFor("node", "py312"))), HasSubstr("virtual machines"));
  EXPECT_EQ(imageIn(decideAmong(bodyFor("node", "data"))), "data@" + offered("data", true).digest);
}

TEST(PolicyImages, InterpretersStartAheadInTheHostsAlone) {
  const auto prestart = [](const Decision& decision) {
    return std::get<model::Permit>(decision).fields().prestart;
  };
  EXPECT_EQ(prestart(decideAmong(bodyFor("python", "host"))), "ahead");
  EXPECT_EQ(prestart(decideAmong(kPython)), "");
}

}  // namespace
}  // namespace cloister::policy

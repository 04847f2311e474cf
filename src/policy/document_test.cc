// SPDX-License-Identifier: Apache-2.0
#include "policy/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "model/run_request.h"
#include "policy/explain.h"
#include "policy/policy_testing.h"
#include "policy/warnings.h"

namespace cloister::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const model::Limits kMax = testing::kMax;
using testing::asking;
using testing::decideOn;
using testing::errorOf;
using testing::kPython;
using testing::parse;
using testing::policyOf;
using testing::ruleOf;

TEST(PolicyDocument, SaysLineAndMemberOfWhatIsWrong) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"version: 2\nrules:\n  - name: a\n    effect: deny\n", "line 3: rules[0].why: is required"},
      {"version: 2\nrules:\n  - {name: a, why: b}\n", "line 3: rules[0].effect"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: maybe}\n", "line 3: rules[0].effect"},
      {"version: 2\nrules:\n  - name: a\n    why: b\n    effect: deny\n    match:\n      agent: "
       "[x]\n",
       "line 7: rules[0].match.agent: unknown field"},
      {"version: 2\nrules:\n  - name: a\n    why: b\n    effect: allow\n    match:\n", "line 6"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {tenants: []}}\n",
       "tenants"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {roles: [boss]}}\n", "boss"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {operations: [fly]}}\n",
       "\"fly\" is none of run, session"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {network_tiers: [all]}}\n",
       "none, restricted, internal, api, full"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {dependencies: some}}\n",
       "match.dependencies"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {dependencies: {only: [x], "
       "any_of: [y]}}}\n",
       "either any_of or only"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, match: {risk: {}}}\n", "at_least"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: deny, tier: Auto}\n", "tier: unknown"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: allow, tier: Manual}\n", "ManualOnly"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: allow, runtime: docker}\n", "microvm"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: allow, tier: Assisted, runtime: "
       "process}\n",
       "weaker than \"gvisor\""},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: allow, approve: {}}\n",
       "approve: unknown"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: approve, approve: {roles: [king]}}\n",
       "\"king\" is no role"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: approve, approve: {quorum: 0}}\n",
       "quorum"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: approve, approve: {fallback: allow}}\n",
       "must be deny"},
      {"version: 2\nrules:\n  - {name: a, why: b, effect: allow, operations: [x]}\n", "operations"},
      {"version: 2\ntiers: {Auto: {from_score: 1}}\nrules: [{name: a, why: b, effect: deny}]\n",
       "line 2: tiers.Auto.from_score"},
      {"version: 2\ntiers: {Assisted: {runtime: process}, HumanApprove: {runtime: process}, Auto: "
       "{runtime: gvisor}}\nrules: [{name: a, why: b, effect: deny}]\n",
       "tiers.Assisted.runtime: is weaker"},
      {"version: 2\ntiers: {Assisted: {from_score: 9}, HumanApprove: {from_score: 9}}\nrules: "
       "[{name: "
       "a, why: b, effect: deny}]\n",
       "tiers.HumanApprove.from_score"},
      {"version: 2\nrisk: {languages: {python: -1}}\nrules: [{name: a, why: b, effect: deny}]\n",
       "line 2: risk.languages.python"},
      {"version: 2\nrisk: {secrets: {each: 1}}\nrules: [{name: a, why: b, effect: deny}]\n",
       "risk.secrets.names"},
  };
  for (const auto& [text, word] : cases) {
    EXPECT_THAT(errorOf(text), StartsWith("test: ")) << text;
    EXPECT_THAT(errorOf(text), HasSubstr(std::string(word))) << text;
  }
}

TEST(PolicyDocument, HostileYamlIsRefused) {
  EXPECT_THAT(errorOf("version: 2\nrules: &x [*x]\n"), HasSubstr("not allowed"));
  EXPECT_THAT(errorOf("version: 2\na: &a [1]\nrules: [*a, *a]\n"), HasSubstr("not allowed"));
  EXPECT_THAT(errorOf("version: !!python/object 2\nrules: []\n"), HasSubstr("tags"));
  EXPECT_THAT(errorOf("rules: " + std::string(20, '[') + std::string(20, ']')), HasSubstr("deep"));
  EXPECT_FALSE(parse("rules: " + std::string(30'000, '[')));
  EXPECT_THAT(errorOf("version: 2\nversion: 2\nrules: []\n"), HasSubstr("given twice"));
  EXPECT_THAT(errorOf(std::string(70'000, 'x')), HasSubstr("larger than"));
  EXPECT_FALSE(parse(std::string_view("version: 2\nrules: [{name: \"a\\0\", why: b}]", 42)));
  EXPECT_FALSE(parse("\xff\xfe"));
  // Long keys in many lines: their lines are not stored, and parsing stays fast.
  std::string wide = "version: 2\n? " + std::string(30'000, 'k') + "\n: {";
  for (int i = 0; i < 4000; ++i)
    wide += "a" + std::to_string(i) + ": 1,";
  EXPECT_FALSE(parse(wide + "}\nrules: []\n"));
}

TEST(PolicyDocument, ARuleNamesItsDestinations) {
  const Policy policy = policyOf(
      "  - {name: a, why: b, effect: approve, network: [\"api.example.com:443\", "
      "{name: m.example.net, ports: [80], methods: [GET], paths: [\"/a/*\"], dns: [TXT], "
      "max_bytes: 5, on_denied: ask, why: w}, "
      "{name: t.example.net, ports: [443], inspect: true, methods: [GET], paths: [\"/a/*\"]}]}\n");
  ASSERT_EQ(policy.rules.at(0).network.size(), 3U);
  EXPECT_TRUE(policy.rules[0].network[2].inspect);
  EXPECT_EQ(policy.rules[0].network[2].methods, std::vector<std::string>{"GET"});
  const model::NetworkEntry& entry = policy.rules[0].network[1];
  EXPECT_EQ(entry.name, "m.example.net");
  EXPECT_EQ(entry.protocol, model::Protocol::kHttp);
  EXPECT_EQ(entry.max_bytes, 5U);
  EXPECT_EQ(entry.on_denied, model::OnDenied::kAsk);
}

TEST(PolicyDocument, SaysWhatIsWrongWithADestination) {
  const auto wrong = [](const std::string& members, const std::string& effect = "allow") {
    return testing::errorOf("version: 2\nrules:\n  - name: a\n    why: b\n    effect: " + effect +
                            "\n    network:\n      - b.example.com:443\n      - " + members + "\n");
  };
  const std::pair<std::string, std::string> cases[] = {
      {"api.example.com", "line 8: rules[0].network[1]"},
      {"10.0.0.1:80", "line 8: rules[0].network[1]"},
      {"{name: a.example.com, ports: [0]}", "rules[0].network[1].ports"},
      {"{name: a.example.com, ports: [443], methods: [GET]}", "rules[0].network[1].methods"},
      {"{name: a.example.com, ports: [443], paths: [/a]}", "rules[0].network[1].paths"},
      {"{name: a.example.com, ports: [80], inspect: true}", "rules[0].network[1].inspect"},
      {"{name: a.example.com, ports: [443], inspect: 1}", "rules[0].network[1].inspect"},
      {"{name: a.example.com, ports: [443], secrets: [x]}", "a member of the rule"},
      {"{name: a.example.com, ports: [443], port: 1}", "rules[0].network[1].port"},
      {"{name: \"*\"}", "for the tier full"},
  };
  for (const auto& [members, part] : cases)
    EXPECT_THAT(wrong(members), HasSubstr(part)) << members;
  EXPECT_THAT(wrong("a.example.com:443", "deny"), HasSubstr("rules[0].network: unknown field"));
  const std::string rule = "version: 2\nrules:\n  - {name: a, why: b, effect: allow, ";
  EXPECT_THAT(testing::errorOf(rule + "network: []}\n"), HasSubstr("rules[0].network: is empty"));
  EXPECT_THAT(testing::errorOf(rule + "secrets: [{name: x}]}\n"),
              HasSubstr("rules[0].secrets[0].as: must be a list"));
  EXPECT_THAT(testing::errorOf("version: 2\nrules:\n  - {name: a, why: b, effect: deny, "
                               "secrets: [{name: x, as: [env]}]}\n"),
              HasSubstr("rules[0].secrets: unknown field"));
}

TEST(PolicyDocument, EveryConditionCounts) {
  const Policy policy = policyOf(R"(
  - {name: tenant, why: w, effect: deny, match: {tenants: [evil]}}
  - {name: app, why: w, effect: deny, match: {apps: [x]}}
  - {name: agent, why: w, effect: deny, match: {agents: [bob]}}
  - {name: user, why: w, effect: deny, match: {users: [eve]}}
  - {name: role, why: w, effect: deny, match: {roles: [admin]}}
  - {name: tool, why: w, effect: deny, match: {tool_types: [send_message]}}
  - {name: in-session, why: w, effect: deny, match: {session: true, languages: [python]}}
  - {name: session, why: w, effect: deny, match: {operations: [session]}}
  - {name: numpy, why: w, effect: deny, match: {dependencies: {only: [numpy, "@x/y"]}}}
  - {name: left-pad, why: w, effect: deny, match: {dependencies: {any_of: [left-pad]}}}
  - {name: deps, why: w, effect: deny, match: {dependencies: any}}
  - {name: net, why: w, effect: deny, match: {network_tiers: [full]}}
  - {name: rest, why: w, effect: allow, match: {dependencies: none}}
)");
  const auto ask = [&](const std::string& more, const std::string& request = "") {
    return ruleOf(policy,
                  R"({"request":{"language":"python","code":"1")" + request + "}" + more + "}");
  };
  EXPECT_EQ(ask(""), "rest");
  EXPECT_EQ(ask(R"(,"principal":{"tenant":"evil"})"), "tenant");
  EXPECT_EQ(ask(R"(,"principal":{"app":"x"})"), "app");
  EXPECT_EQ(ask(R"(,"principal":{"agent":"bob"})"), "agent");
  EXPECT_EQ(ask(R"(,"principal":{"user":"eve"})"), "user");
  EXPECT_EQ(ask(R"(,"principal":{"roles":["admin"]})"), "role");
  EXPECT_EQ(ask(R"(,"session":true)"), "in-session");
  EXPECT_EQ(ask(R"(,"operation":"session")"), "session");
  EXPECT_EQ(ask("", R"(,"metadata":{"tool_type":"send_message"})"), "tool");
  EXPECT_EQ(ask("", R"(,"metadata":{"tool_type":"run_code"})"), "rest");
  EXPECT_EQ(ask("", R"(,"deps":["numpy==1.26.4","@x/y@2"])"), "numpy");
  EXPECT_EQ(ask("", R"(,"deps":["numpy","left-pad>=1"])"), "left-pad");
  EXPECT_EQ(ask("", R"(,"deps":["numpy-evil"])"), "deps");
  EXPECT_EQ(ask("", R"(,"network_policy":{"tier":"full"})"), "net");
}

TEST(PolicyDocument, AnApprovalIsWantedAndThenNotWanted) {
  const Policy policy = policyOf(
      "  - {name: ask, why: someone must look, effect: approve, tier: Auto, approve: {roles: "
      "[approver, admin], quorum: 2, ttl_seconds: 60}}\n");
  const Decision decision = decideOn(policy, kPython);
  const auto* wanted = std::get_if<NeedsApproval>(&decision);
  ASSERT_NE(wanted, nullptr);
  EXPECT_EQ(wanted->rule, "ask");
  EXPECT_EQ(wanted->reason, "someone must look");
  EXPECT_THAT(wanted->approver_roles, ::testing::ElementsAre("approver", "admin"));
  EXPECT_EQ(wanted->quorum, 2U);
  EXPECT_EQ(wanted->ttl_seconds, 60);
  EXPECT_EQ(wanted->fallback, "deny");
  const auto refusal = refusalOf(decision);
  ASSERT_TRUE(refusal);
  EXPECT_TRUE(refusal->for_approval);
  EXPECT_THAT(refusal->remedy, HasSubstr("2 principals with the role approver or admin"));
  EXPECT_TRUE(std::holds_alternative<model::Permit>(
      decideOn(policy, R"({"request":{"language":"python","code":"1"},"approved":true})")));
}

TEST(PolicyDocument, AnApprovalDoesNotLiftADenial) {
  const Policy policy =
      policyOf("  - {name: ask, why: w, effect: approve, tier: Auto, max: {pids: 8}}\n");
  for (
      const char* request :
      {R"({"request":{"language":"python","code":"1","pids":9},"approved":true})",
       R"({"request":{"language":"python","code":"1","deps":["x"],"pids":8},"approved":true})",
       R"({"request":{"language":"python","code":"1","runtime":"gvisor","pids":8},"approved":true})"}) {
    EXPECT_TRUE(std::holds_alternative<Denied>(decideOn(policy, request))) << request;
  }
}

TEST(PolicyDocument, TheTierIsTheRulesOrTheScoresAndNeverLess) {
  const std::string tiers =
      "tiers: {Assisted: {from_score: 10}, HumanApprove: {from_score: 20}}\n"
      "risk: {languages: {python: 10, bash: 25, other: 0}}\n";
  const Policy by_score = policyOf("  - {name: all, why: w, effect: allow}\n", tiers);
  const Policy fixed = policyOf("  - {name: all, why: w, effect: allow, tier: Auto}\n", tiers);
  const auto tier = [](const Policy& policy, const std::string& language,
                       const std::string& asked) {
    const Supposed supposed = asking().suppose(
        R"({"runtimes":["process","gvisor","microvm"],"request":{"code":"1","language":")" +
        language + "\"" + (asked.empty() ? "" : R"(,"tier":")" + asked + "\"") + "}}");
    const Evaluation made = evaluate(policy, supposed.question());
    return std::string(tierName(made.tier)) + "/" + std::string(made.runtime) + "/" +
           std::string(outcomeOf(made));
  };
  EXPECT_EQ(tier(by_score, "node", ""), "Auto/process/allow");
  EXPECT_EQ(tier(by_score, "python", ""), "Assisted/gvisor/allow");
  EXPECT_EQ(tier(by_score, "python", "Auto"), "Assisted/gvisor/allow");
  EXPECT_EQ(tier(by_score, "bash", ""), "HumanApprove/gvisor/approve");
  EXPECT_EQ(tier(by_score, "node", "ManualOnly"), "ManualOnly/microvm/approve");
  EXPECT_EQ(tier(fixed, "bash", ""), "Auto/process/allow");
  EXPECT_EQ(tier(fixed, "bash", "Assisted"), "Assisted/gvisor/allow");
}

TEST(PolicyDocument, ARuntimeThatIsNotOfferedIsRefusedWithAWayToGetIt) {
  const Policy policy = policyOf("  - {name: strong, why: w, effect: allow, tier: Assisted}\n");
  const Decision decision = decideOn(policy, kPython);
  const auto* denied = std::get_if<Denied>(&decision);
  ASSERT_NE(denied, nullptr);
  EXPECT_THAT(denied->reason, HasSubstr("runtime \"gvisor\", which tier Assisted of rule strong"));
  EXPECT_THAT(denied->remedy, HasSubstr("runsc"));
  const Decision offered = decideOn(
      policy, R"({"request":{"language":"python","code":"1"},"runtimes":["process","gvisor"]})");
  ASSERT_TRUE(std::holds_alternative<model::Permit>(offered));
  EXPECT_EQ(std::get<model::Permit>(offered).fields().runtime, "gvisor");
  const Decision weaker =
      decideOn(policy, R"({"request":{"language":"python","code":"1","runtime":"process"},)"
                       R"("runtimes":["process","gvisor"]})");
  EXPECT_THAT(std::get<Denied>(weaker).reason, HasSubstr("weaker"));
}

TEST(PolicyDocument, OperationsThatARuleDoesNotAllowAreDenied) {
  const Policy policy =
      policyOf("  - {name: runs, why: w, effect: allow, tier: Auto, operations: [run]}\n");
  EXPECT_TRUE(std::holds_alternative<model::Permit>(decideOn(policy, kPython)));
  const Decision session =
      decideOn(policy, R"({"request":{"language":"python","code":"1"},"operation":"session"})");
  EXPECT_THAT(std::get<Denied>(session).reason, HasSubstr("operation \"session\""));
}

TEST(PolicyDocument, ABrokenPolicyDeniesEverything) {
  const Decision decision = decideOn(brokenPolicy("p", "it is torn"), kPython);
  EXPECT_THAT(std::get<Denied>(decision).reason, HasSubstr("it is torn"));
}

TEST(PolicyDocument, TheScoreIsASumThatIsShown) {
  const Policy policy = policyOf(
      "  - {name: risky, why: w, effect: deny, match: {risk: {at_least: 71}}}\n"
      "  - {name: all, why: w, effect: allow, tier: Auto}\n",
      "risk: {languages: {command: 5}, commands: {privileged: 30, forbidden_command: 20, other: "
      "1}, "
      "dependencies: {each: 4, most: 6}, secrets: {each: 10, most: 15, names: ['*_TOKEN']}, roles: "
      "{agent: 3}, tenants: {acme: 2}, network: {full: 40}}\n");
  const Supposed supposed = asking().suppose(
      R"({"request":{"command":"sudo ls","env":{"A_TOKEN":"1","B_TOKEN":"2","C":"3"}}})");
  std::vector<RiskLine> lines;
  const int score = riskOf(policy.risk,
                           {.language = supposed.language,
                            .request = supposed.request,
                            .principal = supposed.principal,
                            .facts = &supposed.facts},
                           &lines);
  int sum = 0;
  for (const RiskLine& line : lines)
    sum += line.points;
  EXPECT_EQ(score, sum);
  const auto points = [&](std::string_view factor) {
    int all = 0;
    for (const RiskLine& line : lines)
      all += line.factor == factor ? line.points : 0;
    return all;
  };
  EXPECT_EQ(points("language"), 5);
  EXPECT_EQ(points("secrets"), 15);
  EXPECT_EQ(points("principal"), 5);
  EXPECT_GE(points("command"), 20);
  const base::json::object answer = explain(policy, supposed.question());
  EXPECT_THAT(std::string(answer.at("risk").at("arithmetic").as_string()),
              HasSubstr("= " + std::to_string(score)));
  EXPECT_EQ(answer.at("risk").at("score").to_number<int>(), score);
  EXPECT_EQ(answer.at("rules").as_array().size(), 2U);
}

// Risks of a command are also found in a shell's code, and in argv.
TEST(PolicyDocument, CommandsAreReadWhereverTheyStand) {
  for (const char* request :
       {R"({"request":{"command":"sudo ls"}})", R"({"request":{"command":["sudo","ls"]}})",
        R"({"request":{"language":"bash","code":"sudo ls"}})"}) {
    EXPECT_THAT(asking().suppose(request).facts.command_risks,
                ::testing::Contains("forbidden_command"))
        << request;
  }
  EXPECT_THAT(asking().suppose(kPython).facts.command_risks, IsEmpty());
}

TEST(PolicyDocument, WarnsOfRulesThatNeverDecide) {
  const Policy policy =
      policyOf("  - {name: all, why: w, effect: allow}\n  - {name: late, why: w, effect: deny}\n");
  EXPECT_THAT(warningsOf(policy, asking().parts()),
              ::testing::ElementsAre(HasSubstr("\"late\" never decides")));
}

TEST(PolicyDocument, DifferencesNameTheRules) {
  const Policy one = policyOf(
      "  - {name: a, why: w, effect: deny, match: {agents: [x]}}\n"
      "  - {name: b, why: w, effect: deny, match: {agents: [y]}}\n"
      "  - {name: c, why: w, effect: allow}\n");
  const Policy two = policyOf(
      "  - {name: b, why: w, effect: deny, match: {agents: [y]}}\n"
      "  - {name: a, why: other, effect: deny, match: {agents: [x]}}\n"
      "  - {name: d, why: w, effect: allow}\n",
      "risk: {languages: {python: 1}}\n");
  const base::json::object diff = differences(one, two);
  EXPECT_EQ(base::toJson(diff.at("added")), R"(["d"])");
  EXPECT_EQ(base::toJson(diff.at("removed")), R"(["c"])");
  EXPECT_EQ(diff.at("changed").as_array().size(), 1U);
  EXPECT_TRUE(diff.at("reordered").as_bool());
  EXPECT_TRUE(diff.at("settings_changed").as_bool());
  EXPECT_FALSE(diff.at("same").as_bool());
  EXPECT_TRUE(differences(one, one).at("same").as_bool());
}

TEST(PolicyDocument, CasesPassOrSayWhatCame) {
  const Policy policy = policyOf("  - {name: all, why: w, effect: allow, tier: Auto}\n");
  const auto report = runCases(policy, R"(
version: 1
cases:
  - name: runs
    request: {language: python, code: "1"}
    expect: {decision: allow, rule: all, tier: Auto, runtime: process}
  - name: does not
    request: {language: python, code: "1"}
    principal: {tenant: acme, roles: [agent]}
    expect: {decision: deny}
)",
                               asking().parts());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->at("passed").as_int64(), 1);
  EXPECT_EQ(report->at("failed").as_int64(), 1);
  EXPECT_THAT(base::toJson(report->at("cases").at(1).at("problems")),
              HasSubstr("decision: wanted \\\"deny\\\", came \\\"allow\\\""));
  const auto bad =
      runCases(policy, "version: 1\ncases:\n  - name: x\n    request: {language: python}\n",
               asking().parts());
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("cases: line 4: cases[0].request"));
}

TEST(PolicyDocument, TheDefaultSendsBuiltInToolsBack) {
  const std::string text = base::readFile(CLOISTER_SOURCE_DIR "/policies/default.yaml").value();
  const auto policy = parsePolicy(text, "default", kMax);
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_THAT(warningsOf(*policy, asking().parts()), IsEmpty());
  const auto type = [&](const std::string& name) {
    return ruleOf(
        *policy,
        R"({"request":{"language":"python","code":"1","metadata":{"tool_type":")" + name + "\"}}}");
  };
  EXPECT_EQ(type("send_message"), "built-in-tools");
  EXPECT_EQ(type("run_code"), "isolated-code");
  EXPECT_TRUE(std::holds_alternative<model::Permit>(decideOn(*policy, kPython)));
  EXPECT_TRUE(std::holds_alternative<model::Permit>(
      decideOn(*policy, R"({"request":{"command":"git status"}})")));
}

}  // namespace
}  // namespace cloister::policy

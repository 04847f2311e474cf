// SPDX-License-Identifier: Apache-2.0
// The operations that agents may do by the levels of policies/levels.yaml, and by their own
// additions.
#include "policy/agent/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "policy/agent/categories.h"

namespace cloister::policy {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Validation::Kind;

constexpr int64_t kNow = 1'000'000;
constexpr uint64_t kMiB = uint64_t{1} << 20;

const Levels& shipped() {
  static const Levels kLevels =
      parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
          .value();
  return kLevels;
}

model::AgentSandbox sandboxAt(const std::string& level) {
  model::AgentSandbox sandbox;
  sandbox.tenant = "acme";
  sandbox.agent = "alice";
  sandbox.level = level;
  return sandbox;
}

AgentRules rulesAt(const std::string& level) {
  return makeAgentRules(shipped(), sandboxAt(level)).value();
}

Validation file(const AgentRules& rules, FileAccess access, const std::string& path,
                bool recursive = false) {
  return validateOperation(rules, {.what = FileOperation{access, path, recursive}, .wanted = {}},
                           {}, kNow);
}
Validation command(const AgentRules& rules, const std::string& text) {
  return validateOperation(rules, {.what = CommandOperation{text, {}}, .wanted = {}}, {}, kNow);
}
Validation network(const AgentRules& rules, const std::string& url) {
  return validateOperation(rules, {.what = NetworkOperation{url}, .wanted = {}}, {}, kNow);
}

TEST(ValidateCommand, AFilterOfItsOwnAddsToTheLevels) {
  model::AgentSandbox sandbox = sandboxAt("standard");
  const auto allowed = [&](const std::string& text) {
    return command(makeAgentRules(shipped(), sandbox).value(), text).approved();
  };
  EXPECT_TRUE(allowed("uname -a") && allowed("sort -r a") && allowed("cat /srv/a"));
  sandbox.dangerous_patterns = {"uname -a"};
  sandbox.parameter_restrictions = {{.command = "sort", .forbidden_flags = {"-r"}},
                                    {.command = "cat", .allowed_paths = {"/workspace/*"}}};
  EXPECT_FALSE(allowed("uname -a") || allowed("sort -r a") || allowed("cat /srv/a"));
  EXPECT_TRUE(allowed("uname -s") && allowed("sort a") && allowed("cat /workspace/a"));
  EXPECT_FALSE(allowed("sudo ls")) << "as the level has it";
  sandbox.whitelist_mode = true;
  EXPECT_FALSE(allowed("uname -s"));
  sandbox.allowed_commands = {"uname *"};
  EXPECT_TRUE(allowed("uname -s"));
  EXPECT_FALSE(allowed("uname -a"));
}

TEST(ValidateNetwork, AGrantIsForItsHost) {
  model::AgentSandbox sandbox = sandboxAt("training");
  const auto covers = [&](const std::string& pattern, const std::string& url) {
    sandbox.temporary_permissions = {
        {.operation = "network", .pattern = pattern, .expires_at = kNow + 1, .escalation_id = "e"}};
    return network(makeAgentRules(shipped(), sandbox).value(), url).approved();
  };
  EXPECT_TRUE(covers("pypi.org", "https://pypi.org/simple"));
  EXPECT_TRUE(covers("pypi.org", "http://PyPI.org:8080/"));
  EXPECT_TRUE(covers("PYPI.org.", "https://pypi.org"));
  EXPECT_FALSE(covers("pypi.org", "https://files.pypi.org/x"));
  EXPECT_FALSE(covers("pypi.org", "https://pypi.org.evil.example/"));
  EXPECT_FALSE(covers("pypi.org", "https://evil.example/pypi.org"));
  EXPECT_FALSE(covers("pypi.org", "https://pypi.org@evil.example/"));
  EXPECT_TRUE(covers("*.pypi.org", "https://files.pypi.org/x"));
  EXPECT_FALSE(covers("*.pypi.org", "https://pypi.org/x"));
  EXPECT_FALSE(covers("*.pypi.org", "https://evil.example/.pypi.org"));
  EXPECT_TRUE(covers("pypi.org:443", "https://pypi.org/simple"));
  EXPECT_TRUE(covers("pypi.org:8080", "http://pypi.org:8080/"));
  EXPECT_FALSE(covers("pypi.org:443", "http://pypi.org/"));
  EXPECT_TRUE(covers("[2001:db8::1]:443", "https://[2001:db8::1]/"));
  EXPECT_TRUE(covers("2001:db8::1", "https://[2001:db8::1]:8443/"));
  EXPECT_TRUE(covers("https://pypi.org/simple/*", "https://pypi.org/simple/numpy/"));
  EXPECT_TRUE(covers("https://pypi.org", "https://pypi.org/simple/numpy/"));
  EXPECT_FALSE(covers("https://pypi.org/simple/*", "https://pypi.org/admin"));
  EXPECT_FALSE(covers("https://pypi.org/*", "http://pypi.org/simple"));
  EXPECT_FALSE(covers("https://pypi.org/*", "https://evil.example/https://pypi.org/"));
}

TEST(ValidateFiles, ByLevel) {
  using enum FileAccess;
  struct Case {
    const char* level;
    FileAccess access;
    const char* path;
    bool approved;
  };
  const Case cases[] = {
      {"training", kRead, "src/a.cc", true},
      {"training", kWrite, "src/a.cc", false},
      {"training", kWrite, "/tmp/a", true},
      {"training", kCreate, "/tmp/../workspace/a", false},
      {"training", kRead, "/home/bob/.ssh/id_rsa", false},
      {"training", kWrite, "/src/security/auth.rs", false},
      {"isolated", kRead, "src/a.cc", true},
      {"isolated", kWrite, "/tmp/a", false},
      {"isolated", kDelete, "a", false},
      {"restricted", kWrite, "src/a.cc", true},
      {"restricted", kWrite, "config.yaml", false},
      {"restricted", kWrite, "crates/x/Cargo.toml", false},
      {"restricted", kRead, "crates/x/Cargo.toml", true},
      {"restricted", kWrite, "db/migrations/0001.sql", false},
      {"restricted", kWrite, ".git/hooks/pre-commit", false},
      {"restricted", kWrite, "/etc/passwd", false},
      {"restricted", kWrite, "/usr/bin/x", false},
      {"restricted", kDelete, "src/a.cc", false},
      {"standard", kWrite, "config.yaml", true},
      {"standard", kCreate, "a", true},
      {"standard", kDelete, "a", true},
      {"standard", kDelete, "/usr/lib/x", false},
      {"standard", kWrite, "/etc/passwd", false},
      {"standard", kWrite, "/tmp//..//etc/./passwd", false},
      {"standard", kRead, "/etc/passwd", true},
      {"standard", kRead, "/root/x", false},
      {"unrestricted", kDelete, "/usr/lib/x", true},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(file(rulesAt(each.level), each.access, each.path).approved(), each.approved)
        << each.level << " " << static_cast<int>(each.access) << " " << each.path;
  }
}

TEST(ValidateFiles, ADenialNamesItsRule) {
  const Validation v = file(rulesAt("standard"), FileAccess::kWrite, "/etc/passwd");
  EXPECT_EQ(v.kind, Kind::kDenied);
  EXPECT_EQ(v.rule, "/etc/*");
  EXPECT_THAT(v.why, HasSubstr("nobody's to change"));
  EXPECT_TRUE(v.escalation_available);
  EXPECT_TRUE(v.human_approval) << "system_file_access";
  EXPECT_FALSE(file(rulesAt("training"), FileAccess::kRead, "/home/a/.ssh/k").escalation_available)
      << "keys are nobody's to give";
}

TEST(ValidateFiles, WhatHoldsAForbiddenPathIsNotMovedOrDeletedWhole) {
  auto sandbox = sandboxAt("standard");
  sandbox.forbidden_paths = {"/workspace/secrets/*"};
  const AgentRules rules = makeAgentRules(shipped(), sandbox).value();
  EXPECT_FALSE(file(rules, FileAccess::kRead, "secrets/key").approved());
  EXPECT_FALSE(file(rules, FileAccess::kRead, "./x/../secrets/key").approved());
  EXPECT_FALSE(file(rules, FileAccess::kDelete, "secrets", true).approved());
  EXPECT_FALSE(file(rules, FileAccess::kDelete, "", true).approved()) << "the workspace";
  EXPECT_FALSE(file(rules, FileAccess::kRead, "", true).approved()) << "as an archive";
  EXPECT_TRUE(file(rules, FileAccess::kRead, "").approved()) << "its listing";
  EXPECT_TRUE(file(rules, FileAccess::kDelete, "src", true).approved());
  EXPECT_TRUE(file(rules, FileAccess::kRead, "secrets2/key").approved());
}

TEST(ValidateFiles, GrantedAndRevoked) {
  auto sandbox = sandboxAt("isolated");
  sandbox.granted_operations = {"file_write"};
  // The level's rule about paths is stricter than the grant.
  EXPECT_FALSE(
      file(makeAgentRules(shipped(), sandbox).value(), FileAccess::kWrite, "a").approved());
  sandbox.level = "training";
  EXPECT_TRUE(file(makeAgentRules(shipped(), sandbox).value(), FileAccess::kWrite, "a").approved());
  sandbox.level = "standard";
  sandbox.granted_operations = {};
  sandbox.revoked_operations = {"file_write", "network"};
  const AgentRules rules = makeAgentRules(shipped(), sandbox).value();
  EXPECT_THAT(file(rules, FileAccess::kWrite, "a").reason, HasSubstr("file_write was revoked"));
  EXPECT_TRUE(file(rules, FileAccess::kRead, "a").approved());
  EXPECT_FALSE(network(rules, "https://example.org/").approved());
}

TEST(ValidateCommands, FourOutcomes) {
  EXPECT_EQ(command(rulesAt("standard"), "git status").kind, Kind::kApproved);
  const Validation unsafe = command(rulesAt("standard"), "git status; sudo ls");
  EXPECT_EQ(unsafe.kind, Kind::kUnsafeCommand);
  EXPECT_EQ(unsafe.rule, "sudo *");
  EXPECT_EQ(unsafe.words, "sudo ls");
  EXPECT_FALSE(unsafe.escalation_available) << "a rule forbids it by name";
  EXPECT_THAT(unsafe.mitigations, Contains("run the command without sudo"));
  ASSERT_FALSE(unsafe.risk_factors.empty());
  const Validation denied = command(rulesAt("restricted"), "ls");
  EXPECT_EQ(denied.kind, Kind::kDenied);
  EXPECT_TRUE(denied.escalation_available);
  EXPECT_FALSE(denied.human_approval) << "restricted approves what is safe by itself";
  EXPECT_TRUE(command(rulesAt("training"), "touch a").human_approval) << "outside of /tmp";
  const Validation doubt = command(rulesAt("standard"), "$x");
  EXPECT_EQ(doubt.kind, Kind::kUnsafeCommand);
  EXPECT_TRUE(doubt.escalation_available);
}

TEST(ValidateCommands, AnAgentsOwn) {
  auto sandbox = sandboxAt("training");
  EXPECT_FALSE(command(makeAgentRules(shipped(), sandbox).value(), "cargo build").approved());
  sandbox.allowed_commands = {"cargo build"};
  EXPECT_TRUE(command(makeAgentRules(shipped(), sandbox).value(), "cargo build").approved());
  sandbox.forbidden_commands = {"cargo *"};
  EXPECT_EQ(command(makeAgentRules(shipped(), sandbox).value(), "cargo build").kind,
            Kind::kUnsafeCommand);
  sandbox = sandboxAt("training");
  sandbox.revoked_operations = {"command_execution"};
  EXPECT_FALSE(command(makeAgentRules(shipped(), sandbox).value(), "git status").approved());
  sandbox.revoked_operations = {};
  sandbox.granted_operations = {"command_execution"};
  EXPECT_TRUE(command(makeAgentRules(shipped(), sandbox).value(), "ls").approved());
  sandbox.allowed_commands = {""};
  EXPECT_EQ(makeAgentRules(shipped(), sandbox).error().field, "allowed_commands");
  sandbox = sandboxAt("no such level");
  EXPECT_EQ(makeAgentRules(shipped(), sandbox).error().field, "level");
}

TEST(ValidateCommands, RedirectionsIntoForbiddenPaths) {
  EXPECT_FALSE(command(rulesAt("restricted"), "git log > Cargo.toml").approved());
  EXPECT_FALSE(command(rulesAt("restricted"), "git log > x/Cargo.toml").approved());
  EXPECT_TRUE(command(rulesAt("restricted"), "git log > log.txt").approved());
}

TEST(ValidateNetwork, ByLevel) {
  EXPECT_FALSE(network(rulesAt("training"), "https://example.org/").approved());
  EXPECT_FALSE(network(rulesAt("restricted"), "https://example.org/").approved());
  EXPECT_TRUE(network(rulesAt("restricted"), "http://10.1.2.3:8080/x").approved());
  EXPECT_TRUE(network(rulesAt("restricted"), "http://git.internal/x").approved());
  EXPECT_TRUE(network(rulesAt("standard"), "https://example.org/").monitoring_required);
  EXPECT_FALSE(network(rulesAt("unrestricted"), "https://example.org/").monitoring_required);
  for (const char* tricky :
       {"http://10.0.0.1@evil.example/", "http://evil.example\\@10.0.0.1/", "http://0x7f000001/",
        "http://2130706433/", "http://10.0.0.1.evil.example/", "http://[::ffff:8.8.8.8]/",
        "http:///x", "10.0.0.1", "http://internal.evil.example/"}) {
    EXPECT_FALSE(network(rulesAt("restricted"), tricky).approved()) << tricky;
  }
}

TEST(ValidateOthers, GatesAndWorkflows) {
  const auto gate = [](const char* level) {
    return validateOperation(rulesAt(level), {.what = GateOperation{"tests"}, .wanted = {}}, {},
                             kNow);
  };
  const auto flow = [](const char* level, const char* action) {
    return validateOperation(
        rulesAt(level), {.what = WorkflowOperation{"release", action}, .wanted = {}}, {}, kNow);
  };
  EXPECT_FALSE(gate("training").approved());
  EXPECT_TRUE(gate("restricted").approved());
  EXPECT_TRUE(flow("restricted", "run").approved());
  EXPECT_FALSE(flow("restricted", "delete").approved());
  EXPECT_TRUE(flow("standard", "delete").approved());
}

TEST(ValidateResources, AllThatRunsCounts) {
  const AgentRules rules = rulesAt("restricted");  // 2048 MiB
  const Operation operation{.what = CommandOperation{"git status", {}},
                            .wanted = {.memory_bytes = 1536 * kMiB}};
  EXPECT_TRUE(validateOperation(rules, operation, {}, kNow).approved());
  const Validation v = validateOperation(rules, operation, {.memory_bytes = 1843 * kMiB}, kNow);
  EXPECT_EQ(v.kind, Kind::kResourceExceeded);
  EXPECT_EQ(v.reason,
            "insufficient memory_mb: requires 1536, only 205 of 2048 are available to agent alice");
  EXPECT_THAT(v.suggestion, HasSubstr("wait for what the agent runs"));
  ASSERT_EQ(v.exceeded.size(), 1U);
  EXPECT_EQ(v.exceeded[0].used, 1843U);
  auto sandbox = sandboxAt("restricted");
  sandbox.limits.memory_mb = 4096;
  EXPECT_TRUE(validateOperation(makeAgentRules(shipped(), sandbox).value(), operation,
                                {.memory_bytes = 1843 * kMiB}, kNow)
                  .approved());
  EXPECT_TRUE(validateResources(rules, {.memory_bytes = 2000 * kMiB}, {}).monitoring_required);
}

TEST(ValidateTemporary, HonouredUntilItExpires) {
  auto sandbox = sandboxAt("isolated");
  sandbox.temporary_permissions = {
      {"file_write", "/workspace/src/auth.rs", kNow + 1, "ESC-2026-001"},
      {"command_execution", "rm *.o", kNow + 1, "ESC-2026-002"}};
  const AgentRules rules = makeAgentRules(shipped(), sandbox).value();
  const Validation v = file(rules, FileAccess::kWrite, "src/auth.rs");
  EXPECT_TRUE(v.approved());
  EXPECT_EQ(v.escalation_id, "ESC-2026-001");
  EXPECT_FALSE(file(rules, FileAccess::kDelete, "src/auth.rs").approved());
  EXPECT_FALSE(file(rules, FileAccess::kWrite, "src/other.rs").approved());
  EXPECT_TRUE(command(rules, "rm *.o").approved());
  EXPECT_FALSE(command(rules, "rm -rf / x.o").approved()) << "a command is that text and no other";
  const Operation later{.what = FileOperation{FileAccess::kWrite, "src/auth.rs", false},
                        .wanted = {}};
  EXPECT_FALSE(validateOperation(rules, later, {}, kNow + 1).approved());
}

// P48: no approval, whatever its origin, lifts a rule without exceptions.
TEST(ValidateTemporary, IsNoWordOnHardRules) {
  auto sandbox = sandboxAt("standard");
  sandbox.temporary_permissions = {
      {"command_execution", "sudo ls", kNow + 1, "ESC-2026-001"},
      {"command_execution", "mkfs.ext4 disk", kNow + 1, "ESC-2026-002"},
      {"file_read", "/home/dev/.ssh/id_rsa", kNow + 1, "ESC-2026-003"},
      {"file_read", "*", kNow + 1, "ESC-2026-004"}};
  AgentRules rules = makeAgentRules(shipped(), sandbox).value();
  const Validation hard = command(rules, "sudo ls");
  EXPECT_FALSE(hard.approved());
  EXPECT_FALSE(hard.escalation_available);
  EXPECT_FALSE(file(rules, FileAccess::kRead, "/home/dev/.ssh/id_rsa").approved());
  EXPECT_FALSE(command(rules, "mkfs.ext4 disk").approved());
  for (CommandRule& rule : rules.level.dangerous)
    rule.outcome = Outcome::kEscalate;
  EXPECT_EQ(command(rules, "mkfs.ext4 disk").escalation_id, "ESC-2026-002")
      << "that a person may allow";
  EXPECT_EQ(file(rules, FileAccess::kRead, "/root/notes").escalation_id, "ESC-2026-004");
  EXPECT_TRUE(file(rules, FileAccess::kRead, "mine").escalation_id.empty())
      << "it needs no approval";
}

TEST(ValidateTemporary, OfOneRuleIsNoneOfAnother) {
  auto sandbox = sandboxAt("standard");
  sandbox.forbidden_paths = {"/workspace/d/*"};
  sandbox.temporary_permissions = {{"file_read", "/workspace/d/*", kNow + 1, "ESC-2026-001"}};
  AgentRules rules = makeAgentRules(shipped(), sandbox).value();
  EXPECT_TRUE(file(rules, FileAccess::kRead, "d", true).approved());
  rules.level.forbidden_paths.push_back(
      PathRule{.path = "/workspace/d/keys/*", .why = "a test", .escalation = false});
  EXPECT_FALSE(file(rules, FileAccess::kRead, "d", true).approved()) << "it has keys/ in it";
  EXPECT_TRUE(file(rules, FileAccess::kRead, "d/x").approved());
}

// A rule's approval permits operations not listed by the level, but nothing forbidden by name.
TEST(ValidateTemporary, OfARuleIsForWhatIsSafe) {
  auto sandbox = sandboxAt("restricted");
  sandbox.forbidden_paths = {"/workspace/keys/*"};
  sandbox.forbidden_commands = {"cat keys"};
  for (const char* text : {"ls -la", "cat keys", "touch x", "chmod 4755 x", "psql -l"}) {
    sandbox.temporary_permissions.push_back({.operation = "command_execution",
                                             .pattern = text,
                                             .expires_at = kNow + 1,
                                             .escalation_id = "e",
                                             .by_rule = true});
  }
  sandbox.temporary_permissions.push_back({.operation = "file_read",
                                           .pattern = "/workspace/keys/a",
                                           .expires_at = kNow + 1,
                                           .escalation_id = "e",
                                           .by_rule = true});
  const AgentRules rules = makeAgentRules(shipped(), sandbox).value();
  EXPECT_TRUE(command(rules, "ls -la").approved());
  EXPECT_FALSE(command(rules, "cat keys").approved()) << "it is forbidden";
  EXPECT_FALSE(command(rules, "touch x").approved()) << "it writes";
  EXPECT_FALSE(command(rules, "psql -l").approved()) << "a database wants a person";
  EXPECT_FALSE(file(rules, FileAccess::kRead, "keys/a").approved()) << "the path is forbidden";
  EXPECT_FALSE(command(rules, "ls -l").human_approval) << "a rule may approve it";
  EXPECT_TRUE(command(rules, "touch x").human_approval);
  sandbox.escalation.require_human_approval = std::vector<std::string>{"command_execution"};
  EXPECT_FALSE(command(makeAgentRules(shipped(), sandbox).value(), "ls -la").approved());
}

TEST(LevelsDocument, TheEscalationPolicyIsReadStrictly) {
  const auto error = [](const std::string& policy) {
    const auto levels = parseLevels(
        "version: 1\nsandbox_levels: {a: {description: b, why: c, permissions: {}, "
        "escalation_policy: {" +
            policy + "}}}",
        "test");
    return levels ? std::string() : levels.error().message;
  };
  EXPECT_EQ(error("auto_approve_safe_operations: true, require_human_approval: [file_write], "
                  "fallback_action: allow_read_only, escalation_timeout_seconds: 60"),
            "");
  EXPECT_THAT(error("fallback_action: explode"), HasSubstr("escalation_policy.fallback_action"));
  EXPECT_THAT(error("fallback_acton: deny"), HasSubstr("escalation_policy.fallback_acton"));
  EXPECT_THAT(error("require_human_approval: [file_rite]"), HasSubstr("\"file_rite\" is none of"));
  EXPECT_THAT(error("auto_approve_safe_operations: maybe"),
              HasSubstr("auto_approve_safe_operations"));
  EXPECT_THAT(error("escalation_timeout_seconds: 0"), HasSubstr("escalation_timeout_seconds"));
}

TEST(LevelsDocument, SafeOperationsNameWhatThereIs) {
  const auto error = [](const std::string& row) {
    const auto levels = parseLevels(
        "version: 1\nsandbox_levels: {a: {description: b, why: c, permissions: {}}}\n"
        "safe_operations: [{" +
            row + ", why: w}]",
        "test");
    return levels ? std::string() : levels.error().message;
  };
  EXPECT_EQ(error("operation: command_execution, level: a"), "");
  EXPECT_THAT(error("operation: command_execution, level: x"),
              HasSubstr("safe_operations[0].level"));
  EXPECT_THAT(error("operation: network, path: x"), HasSubstr("safe_operations[0].operation"));
  EXPECT_THAT(error("operation: file_read"), HasSubstr("safe_operations[0].path"));
}

TEST(LevelsDocument, WarnsOfABoundWithoutANetwork) {
  const auto levelsWith = [](const std::string& permissions) {
    return parseLevels("version: 1\nsandbox_levels: {a: {description: b, why: c, permissions: {" +
                           permissions +
                           "}, resource_limits: {max_network_requests_per_minute: 5}}}",
                       "test");
  };
  const auto levels = levelsWith("");
  ASSERT_TRUE(levels);
  EXPECT_THAT(warningsOf(*levels), ElementsAre(HasSubstr("max_network_requests_per_minute")));
  const auto open = levelsWith("network_access: allowed");
  ASSERT_TRUE(open) << open.error().message;
  EXPECT_TRUE(warningsOf(*open).empty());
  EXPECT_TRUE(warningsOf(shipped()).empty());
}

TEST(Operations, AreReadStrictly) {
  const auto parse = [](const char* text) {
    return parseOperation(base::parseJson(text)->as_object(), "operation");
  };
  EXPECT_TRUE(parse(R"({"type":"file","operation":"write","path":"a"})"));
  EXPECT_TRUE(parse(R"({"type":"command","argv":["ls"],"resources":{"memory_mb":5}})"));
  EXPECT_EQ(parse(R"({"type":"file","operation":"own","path":"a"})").error().field,
            "operation.operation");
  EXPECT_EQ(parse(R"({"type":"file","operation":"read"})").error().field, "operation.path");
  EXPECT_EQ(parse(R"({"type":"command"})").error().field, "operation.command");
  EXPECT_EQ(parse(R"({"type":"command","command":"a","argv":["a"]})").error().field,
            "operation.command");
  EXPECT_EQ(parse(R"({"type":"gate"})").error().field, "operation.type");
  EXPECT_THAT(
      parse(R"({"command":"ls"})").error().message,
      HasSubstr("operation.type: must be file, command, network, quality_gate or workflow"));
  EXPECT_EQ(parse(R"({"type":"network","url":"http://x","path":"y"})").error().field,
            "operation.path");
  EXPECT_EQ(targetOf(*parse(R"({"type":"file","operation":"read","path":"../etc/x"})")), "/etc/x");
}

TEST(LevelsDocument, TheDocumentsValues) {
  const auto& levels = shipped().levels;
  EXPECT_EQ(levels.size(), 5U);
  const LevelLimits& training = levels.at("training").limits;
  EXPECT_EQ(training.memory_mb, 512U);
  EXPECT_EQ(training.cpu_percent, 25U);
  EXPECT_EQ(training.time_seconds, 600U);
  EXPECT_EQ(levels.at("restricted").limits.memory_mb, 2048U);
  EXPECT_EQ(levels.at("standard").limits.time_seconds, 3600U);
  EXPECT_EQ(levels.at("restricted").network_access, "internal_only");
  EXPECT_THAT(levels.at("standard").file_operations,
              ElementsAre("read", "write", "create", "delete_non_system"));
  EXPECT_FALSE(shipped().lowering.empty());
}

TEST(LevelsDocument, LoweringNamesLevelsThatThereAre) {
  const std::string head =
      "version: 1\nsandbox_levels:\n  a: {description: d, why: w, permissions: {}}\n";
  EXPECT_TRUE(parseLevels(head, "t"));
  EXPECT_EQ(
      parseLevels(head + "lowering: [{from: a, to: b, after: 1, why: w}]\n", "t").error().field,
      "lowering[0].to");
  EXPECT_EQ(
      parseLevels(head + "lowering: [{from: a, to: a, after: 1, why: w}]\n", "t").error().field,
      "lowering[0].to");
  EXPECT_EQ(parseLevels(head + "lowering: [{from: a, to: a, why: w}]\n", "t").error().field,
            "lowering[0].after");
}

}  // namespace
}  // namespace cloister::policy

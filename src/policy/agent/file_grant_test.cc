// SPDX-License-Identifier: Apache-2.0
// An approval of files opens the same paths in every check, or is refused with a remedy.
#include "policy/agent/file_grant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "policy/agent/validate.h"
#include "policy/agent/walls.h"

namespace cloister::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kNow = 1'000'000;

const Levels& shipped() {
  static const Levels kLevels =
      parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
          .value();
  return kLevels;
}

AgentRules rulesAt(const std::string& level, const auto& change) {
  model::AgentSandbox sandbox;
  sandbox.tenant = "acme";
  sandbox.agent = "alice";
  sandbox.level = level;
  change(sandbox);
  return makeAgentRules(shipped(), sandbox).value();
}
AgentRules rulesAt(const std::string& level) {
  return rulesAt(level, [](model::AgentSandbox&) {});
}
// With both operations of an approval to write.
AgentRules approved(const std::string& level, const std::string& pattern) {
  return rulesAt(level, [&](model::AgentSandbox& sandbox) {
    for (const char* operation : {"file_write", "file_create"})
      sandbox.temporary_permissions.push_back({operation, pattern, kNow + 1, "ESC-2026-001"});
  });
}
bool may(const AgentRules& rules, FileAccess access, const std::string& path,
         bool recursive = false) {
  const Operation operation{.what = FileOperation{access, path, recursive}, .wanted = {}};
  return validateOperation(rules, operation, {}, kNow).approved();
}

TEST(FileGrant, NamesAFileOrADirectoryWithAllBeneathIt) {
  struct Case {
    const char* path;
    const char* pattern;
  };
  const Case cases[] = {{"a", "/workspace/a"},
                        {"/workspace/./b/../a", "/workspace/a"},
                        {"d/", "/workspace/d/*"},
                        {"/workspace/d//", "/workspace/d/*"},
                        {"d/*", "/workspace/d/*"},
                        {"d/.", "/workspace/d/*"},
                        {"d/e/..", "/workspace/d/*"},
                        {"*", "/workspace/*"},
                        {".", "/workspace/*"},
                        {"/workspace", "/workspace/*"},
                        {"/tmp", "/tmp/*"},
                        {"/dev/shm", "/dev/shm/*"},
                        {"/", "/*"},
                        {"/*", "/*"},
                        {"/etc/hosts", "/etc/hosts"},
                        {"a?[b]", "/workspace/a?[b]"}};
  for (const Case& one : cases) {
    const auto pattern = grantPattern(one.path);
    ASSERT_TRUE(pattern) << one.path << pattern.error().message;
    EXPECT_EQ(*pattern, one.pattern) << one.path;
    EXPECT_EQ(*grantPattern(*pattern), *pattern) << "a pattern is its own";
  }
  for (const char* path : {"*.txt", "/workspace/*.py", "a*", "d*/", "*/x", "d/**", "d/*/e"}) {
    const auto pattern = grantPattern(path);
    ASSERT_FALSE(pattern) << path;
    EXPECT_EQ(pattern.error().field, "path");
    EXPECT_THAT(pattern.error().message, HasSubstr("one directory with / at its end")) << path;
  }
  EXPECT_FALSE(grantPattern(std::string(600, 'a')));
}

TEST(FileGrant, OpensTheSameForProgramsAndForRequests) {
  for (const char* path : {"d/", "/workspace", "notes", "/tmp/d/*"}) {
    const std::string pattern = grantPattern(path).value();
    ASSERT_TRUE(opensFor(rulesAt("isolated"), "file_write", pattern)) << path;
    const AgentRules rules = approved("isolated", pattern);
    const auto writable = wallsOf(rules, kNow).value().walls.writable;
    ASSERT_EQ(writable.size(), 1U) << path;
    const bool beneath = writable.at(0).beneath;
    EXPECT_EQ(beneath, std::string(path) != "notes");
    const std::string inside = writable.at(0).path + (beneath ? "/x/y" : "");
    EXPECT_TRUE(may(rules, FileAccess::kWrite, inside)) << inside;
    EXPECT_TRUE(may(rules, FileAccess::kCreate, inside)) << inside;
    EXPECT_FALSE(may(rules, FileAccess::kWrite, "/workspace2/x"));
  }
  const AgentRules rules = approved("isolated", "/workspace/d/*");
  EXPECT_TRUE(may(rules, FileAccess::kCreate, "d")) << "which the runner makes, too";
  EXPECT_TRUE(may(rules, FileAccess::kWrite, "d", true)) << "all beneath it";
  EXPECT_FALSE(may(rules, FileAccess::kWrite, "d")) << "as a file";
  EXPECT_FALSE(may(rules, FileAccess::kDelete, "d", true));
  EXPECT_FALSE(may(rules, FileAccess::kWrite, "d2/x"));
  EXPECT_FALSE(may(approved("isolated", "/workspace/d"), FileAccess::kWrite, "d/x"));
}

TEST(FileGrant, SaysWhyItWouldOpenNothing) {
  const auto why = [](const AgentRules& rules, std::string_view operation, const char* path) {
    const auto opens = opensFor(rules, operation, grantPattern(path).value());
    if (opens) return std::string();
    EXPECT_EQ(opens.error().code, Code::kInvalid);
    EXPECT_EQ(opens.error().field, "path");
    return opens.error().message;
  };
  const AgentRules isolated = rulesAt("isolated");
  EXPECT_THAT(why(isolated, "file_write", "/etc/hosts"),
              HasSubstr("no sandbox can change /etc/hosts; name one file"));
  EXPECT_THAT(why(isolated, "file_write", "/workspaces/a"),
              HasSubstr("under /workspace, /home/user, /tmp"));
  EXPECT_THAT(why(isolated, "file_read", "/etc/hosts"), IsEmpty());
  EXPECT_THAT(why(isolated, "file_write", "/"), IsEmpty()) << "all three places";
  EXPECT_THAT(why(isolated, "file_delete", "notes"), IsEmpty()) << "for requests";
  EXPECT_THAT(why(isolated, "file_delete", "/dev/shm/notes"), HasSubstr("name the directory"));
  EXPECT_THAT(why(isolated, "file_delete", "/tmp/d/"), IsEmpty());
  EXPECT_THAT(why(rulesAt("training"), "file_delete", "/tmp/notes"), IsEmpty())
      << "the level lets it be removed";
  EXPECT_THAT(why(rulesAt("standard"), "file_read", "/home/dev/.ssh/id_rsa"),
              HasSubstr("nobody may allow what rule /home/*/.ssh/id_* forbids there"));
  const AgentRules revoked = rulesAt("isolated", [](model::AgentSandbox& sandbox) {
    sandbox.revoked_operations = {"file_write"};
  });
  EXPECT_THAT(why(revoked, "file_write", "notes"), HasSubstr("file_write was revoked"));
  AgentRules closed = rulesAt("isolated");
  closed.level.forbidden_paths.push_back(
      PathRule{.path = "/workspace/keys/*", .why = "a test", .escalation = false});
  EXPECT_THAT(why(closed, "file_write", "/workspace"), HasSubstr("/workspace/keys/*"));
  EXPECT_THAT(why(closed, "file_write", "keys/a"), HasSubstr("/workspace/keys/*"));
  EXPECT_THAT(why(closed, "file_write", "other/"), IsEmpty());
}

TEST(FileGrant, WhatWasRevokedIsOpenToNobody) {
  AgentRules rules = approved("isolated", "/workspace/notes");
  rules.revoked.insert("file_write");
  rules.revoked.insert("file_create");
  EXPECT_FALSE(may(rules, FileAccess::kWrite, "notes")) << "the kernel does not open it either";
  EXPECT_THAT(wallsOf(rules, kNow).value().walls.writable, IsEmpty());
}

TEST(FileGrant, ARequestIsToldWhatProgramsCannotDo) {
  const auto conditions = [](const std::string& level, const std::string& pattern) {
    const AgentRules rules = rulesAt(level, [&](model::AgentSandbox& sandbox) {
      sandbox.forbidden_paths = {"/workspace/notes"};
      sandbox.temporary_permissions = {{"file_delete", pattern, kNow + 1, "ESC-2026-001"}};
    });
    const Operation remove{.what = FileOperation{FileAccess::kDelete, "notes", false},
                           .wanted = {}};
    return ::testing::PrintToString(validateOperation(rules, remove, {}, kNow).conditions);
  };
  EXPECT_THAT(conditions("isolated", "/workspace/notes"), HasSubstr("requests to a session's"));
  EXPECT_THAT(conditions("isolated", "/workspace/*"), Not(HasSubstr("requests to a session's")));
  EXPECT_THAT(conditions("standard", "/workspace/notes"),
              Not(HasSubstr("requests to a session's")));
}

TEST(FileGrant, IsShownToThoseWhoDecide) {
  const AgentRules isolated = rulesAt("isolated");
  EXPECT_EQ(openedBy(&isolated, "file_read", "/root/notes"),
            "it opens the file /root/notes, to read");
  EXPECT_EQ(openedBy(nullptr, "file_write", "/workspace/d/*"),
            "it opens the directory /workspace/d and all beneath it, to change and to make");
  EXPECT_THAT(openedBy(&isolated, "file_delete", "/workspace/a"),
              HasSubstr("for requests to a session's files"));
  EXPECT_EQ(openedBy(nullptr, "file_delete", "/workspace/a"),
            "it opens the file /workspace/a, to remove");
}

// The same as a person's approval, as long as the rule still approves.
TEST(FileGrant, OfARuleOpensTheSameForProgramsAndForRequests) {
  const auto rules = [](const std::string& path, const auto& change) {
    Levels levels = shipped();
    Level& level = levels.levels.at("isolated");
    level.forbidden_paths.clear();
    level.escalation.auto_approve_safe = true;
    level.escalation.require_human_approval.clear();
    change(level);
    AgentRules made = makeLevelRules(levels, "isolated", "alice").value();
    made.temporary = {{.operation = "file_write",
                       .pattern = path,
                       .expires_at = kNow + 1,
                       .escalation_id = "e",
                       .by_rule = true}};
    return made;
  };
  const auto open = [](const AgentRules& made, const std::string& path) {
    const bool asked = may(made, FileAccess::kWrite, path);
    EXPECT_EQ(!wallsOf(made, kNow).value().walls.writable.empty(), asked) << path;
    return asked;
  };
  EXPECT_TRUE(open(rules("/tmp/a", [](Level&) {}), "/tmp/a"));
  EXPECT_TRUE(open(rules("/tmp/d/*", [](Level&) {}), "/tmp/d/x"));
  EXPECT_FALSE(open(rules("/workspace/a", [](Level&) {}), "/workspace/a")) << "it is not safe";
  EXPECT_FALSE(
      open(rules("/tmp/a",
                 [](Level& level) { level.escalation.require_human_approval = {"file_write"}; }),
           "/tmp/a"));
  EXPECT_FALSE(open(rules("/tmp/a",
                          [](Level& level) {
                            level.forbidden_paths = {PathRule{.path = "/tmp/*", .why = "a test"}};
                          }),
                    "/tmp/a"))
      << "what is forbidden by its path, no rule opens";
}

}  // namespace
}  // namespace cloister::policy

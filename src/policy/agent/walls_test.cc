// SPDX-License-Identifier: Apache-2.0
// The rules of the shipped levels, and of agents, that become confinement rules of the kernel.
#include "policy/agent/walls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::policy {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using Shown = model::Walls::Shown;
using Writable = model::Walls::Writable;
using Writes = model::Walls::Writes;

constexpr int64_t kNow = 1'000'000;

const Levels& shipped() {
  static const Levels kLevels =
      parseLevels(base::readFile(CLOISTER_SOURCE_DIR "/policies/levels.yaml").value(), "levels")
          .value();
  return kLevels;
}

HeldRules heldAt(const std::string& level, const auto& change) {
  model::AgentSandbox sandbox;
  sandbox.tenant = "acme";
  sandbox.agent = "alice";
  sandbox.level = level;
  change(sandbox);
  return wallsOf(makeAgentRules(shipped(), sandbox).value(), kNow).value();
}
HeldRules heldAt(const std::string& level) {
  return heldAt(level, [](model::AgentSandbox&) {});
}
HeldRules approved(const std::string& level, const std::string& operation,
                   const std::string& pattern, int64_t until = kNow + 1) {
  return heldAt(level, [&](model::AgentSandbox& sandbox) {
    sandbox.temporary_permissions = {{operation, pattern, until, "ESC-2026-001"}};
  });
}

TEST(Walls, OfTheLevels) {
  EXPECT_TRUE(heldAt("unrestricted").walls.none());
  EXPECT_THAT(heldAt("unrestricted").by_text, IsEmpty());

  const HeldRules standard = heldAt("standard");
  EXPECT_THAT(standard.walls.hidden, ElementsAre("/root/*", "/home/*/.ssh/id_*"));
  EXPECT_THAT(standard.walls.without, Contains("dd"));
  EXPECT_THAT(standard.walls.without, Contains("mkfs*"));
  EXPECT_THAT(standard.walls.without, Not(Contains("rm")));
  EXPECT_THAT(standard.by_text, Contains("command rm -rf /*"));
  EXPECT_FALSE(standard.walls.only);
  EXPECT_TRUE(standard.walls.runs_own);
  EXPECT_EQ(standard.walls.writes, Writes::kAll);

  const HeldRules restricted = heldAt("restricted");
  ASSERT_TRUE(restricted.walls.only);
  for (const char* program : {"cargo", "rustc", "git", "sh", "ld"})
    EXPECT_THAT(*restricted.walls.only, Contains(program));
  EXPECT_THAT(*restricted.walls.only, Not(Contains("curl")));
  EXPECT_TRUE(restricted.walls.runs_own) << "cargo runs what it builds";
  EXPECT_THAT(restricted.by_text, Contains("path */migrations/*"));

  const HeldRules isolated = heldAt("isolated");
  ASSERT_TRUE(isolated.walls.only);
  for (const char* program : {"ls", "grep", "echo", "git", "bash"})
    EXPECT_THAT(*isolated.walls.only, Contains(program));
  for (const char* program : {"rm", "python3", "dd", "cargo"})
    EXPECT_THAT(*isolated.walls.only, Not(Contains(program)));
  EXPECT_FALSE(isolated.walls.runs_own);
  EXPECT_EQ(isolated.walls.writes, Writes::kNone);
  EXPECT_THAT(isolated.by_text, IsEmpty());

  EXPECT_EQ(heldAt("training").walls.writes, Writes::kTemporary);
}

TEST(Walls, OfAnAgentsOwnRules) {
  const HeldRules held = heldAt("isolated", [](model::AgentSandbox& sandbox) {
    sandbox.allowed_commands = {"python3 *"};
    sandbox.forbidden_commands = {"curl", "git push *", "perl *"};
    sandbox.forbidden_paths = {
        "/usr/share/doc/*", "*/secrets/*", "/workspace/private/*", "/tmp/*", "/*",
        "/etc/../root/x",   "relative/x",  "/usr/lib/x",           "/u*",    "/"};
  });
  EXPECT_THAT(*held.walls.only, Contains("python3"));
  EXPECT_THAT(held.walls.without, ElementsAre("curl", "perl"));
  EXPECT_THAT(held.walls.hidden, ElementsAre("/usr/share/doc/*", "/usr/lib/x"));
  for (const char* rule :
       {"command git push *", "path */secrets/*", "path /workspace/private/*", "path /tmp/*",
        "path /*", "path /etc/../root/x", "path relative/x", "path /u*", "path /"})
    EXPECT_THAT(held.by_text, Contains(rule));
}

TEST(Walls, ARegularExpressionTellsNoPrograms) {
  Levels levels = shipped();
  CommandRule rule;
  rule.pattern = CommandPattern::parse(CommandPattern::Kind::kRegex, "npm (ci|test)").value();
  levels.levels.at("isolated").allowed.push_back(rule);
  const auto held = wallsOf(makeLevelRules(levels, "isolated", "alice").value(), kNow).value();
  EXPECT_FALSE(held.walls.only);
  EXPECT_TRUE(held.walls.runs_own);
  EXPECT_THAT(held.by_text, Contains("programs, of which command npm (ci|test) tells none"));
}

TEST(Walls, AreNotInTheWayOfWhatWasApproved) {
  EXPECT_THAT(approved("standard", "command_execution", "dd if=a of=b").walls.without,
              Contains("dd"))
      << "nobody may allow it";
  EXPECT_THAT(*approved("isolated", "command_execution", "tac x && cp a b").walls.only,
              Contains("tac"));
  EXPECT_THAT(*approved("isolated", "command_execution", "tac x && cp a b").walls.only,
              Contains("cp"));
  const HeldRules doubt = approved("isolated", "command_execution", "$x");
  EXPECT_FALSE(doubt.walls.only);
  EXPECT_THAT(doubt.by_text, Contains("programs, while something is approved that may run any"));
}

TEST(Walls, OpenForACommandOfARuleWhileARuleApprovesIt) {
  const auto only = [](const std::string& text, bool person = false) {
    const auto held = heldAt("restricted", [&](model::AgentSandbox& sandbox) {
      sandbox.temporary_permissions = {{.operation = "command_execution",
                                        .pattern = text,
                                        .expires_at = kNow + 1,
                                        .escalation_id = "ESC-2026-001",
                                        .by_rule = true}};
      if (person) sandbox.escalation.require_human_approval = {"command_execution"};
    });
    return held.walls.only.value();
  };
  EXPECT_THAT(only("tac x"), Contains("tac"));
  EXPECT_THAT(only("tac x", true), Not(Contains("tac"))) << "a person decides by now";
  EXPECT_THAT(only("shred x"), Not(Contains("shred"))) << "it is in no table";
  EXPECT_THAT(only("$x"), Not(Contains("$x"))) << "and opens everything only by a person's word";
  const auto words = only("tac a;shred b");  // safe as the words of one program
  EXPECT_THAT(words, Contains("tac"));
  EXPECT_THAT(words, Not(Contains("shred")));
}

constexpr uint8_t kWrite = model::kMayWrite;
constexpr uint8_t kCreate = model::kMayCreate;
constexpr uint8_t kDelete = model::kMayDelete;

TEST(Walls, OpenThePathThatWasApprovedAndNoOther) {
  const auto walls = [](const std::string& operation, const std::string& pattern) {
    return approved("isolated", operation, pattern).walls;
  };
  const auto opened = [&](const std::string& operation, const std::string& pattern) {
    return walls(operation, pattern).writable;
  };
  EXPECT_EQ(walls("file_write", "/workspace/a").writes, Writes::kNone);
  EXPECT_THAT(opened("file_write", "/workspace/a"),
              ElementsAre(Writable{kWrite, false, "/workspace/a"}));
  EXPECT_THAT(opened("file_create", "/workspace/out/*"),
              ElementsAre(Writable{kCreate, true, "/workspace/out"}));
  EXPECT_THAT(opened("file_delete", "/tmp/*"), ElementsAre(Writable{kDelete, true, "/tmp"}));
  EXPECT_THAT(opened("file_read", "/workspace/a"), IsEmpty());
  EXPECT_THAT(opened("file_write", "/dev/*"), ElementsAre(Writable{kWrite, true, "/dev/shm"}));
  EXPECT_EQ(opened("file_write", "*").size(), 4U);
  EXPECT_EQ(opened("file_write", "*"), opened("file_write", "/*"));
  EXPECT_THAT(heldAt("isolated",
                     [](model::AgentSandbox& sandbox) {
                       sandbox.temporary_permissions = {
                           {"file_write", "/workspace/a", kNow + 1, "E"},
                           {"file_create", "/workspace/a", kNow + 1, "E"},
                           {"file_write", "/workspace/b", kNow, "over"}};
                     })
                  .walls.writable,
              ElementsAre(Writable{kWrite | kCreate, false, "/workspace/a"}));
  EXPECT_THAT(approved("standard", "file_write", "/workspace/a").walls.writable, IsEmpty())
      << "all is open";
}

TEST(Walls, SayWhatOfAnApprovalTheKernelCannotOpen) {
  const auto closed = [](const std::string& operation, const std::string& pattern) {
    const HeldRules held = approved("isolated", operation, pattern);
    EXPECT_THAT(held.walls.writable, IsEmpty()) << pattern;
    return held.by_text;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(closed("file_write", "/workspace/*.py"), ElementsAre(HasSubstr("neither a path")));
  EXPECT_THAT(closed("file_write", "/workspace/../etc/x"), ElementsAre(HasSubstr("no plain path")));
  EXPECT_THAT(closed("file_write", "/etc/hosts"), ElementsAre(HasSubstr("nothing can be changed")));
  EXPECT_THAT(closed("file_write", "/workspace"), ElementsAre(HasSubstr("nothing can be changed")));
  EXPECT_THAT(closed("file_write", "/workspaces/a"),
              ElementsAre(HasSubstr("nothing can be changed")));
  EXPECT_THAT(closed("file_delete", "/workspace/a"), ElementsAre(HasSubstr("all files")));
}

TEST(Walls, StayClosedWhereNobodyMayAllowIt) {
  const auto opened = [](const std::string& pattern) {
    model::AgentSandbox sandbox;
    sandbox.level = "isolated";
    sandbox.temporary_permissions = {{"file_write", pattern, kNow + 1, "ESC-2026-001"}};
    AgentRules rules = makeAgentRules(shipped(), sandbox).value();
    PathRule rule = rules.level.forbidden_paths.front();
    rule.path = "/workspace/keys/*";
    rule.escalation = false;
    rules.level.forbidden_paths.push_back(rule);
    return wallsOf(rules, kNow).value().walls.writable;
  };
  EXPECT_THAT(opened("/workspace/keys/a"), IsEmpty());
  EXPECT_THAT(opened("/workspace/keys/*"), IsEmpty());
  EXPECT_THAT(opened("/workspace/*"), IsEmpty()) << "it has keys/ in it";
  EXPECT_EQ(opened("/workspace/other").size(), 1U);
  EXPECT_EQ(opened("/workspace/other/*").size(), 1U);
}

TEST(Walls, OpenForWhatAPersonMayAllow) {
  const auto without = [](const std::string& command, int64_t until) {
    model::AgentSandbox sandbox;
    sandbox.level = "standard";
    sandbox.temporary_permissions = {{"command_execution", command, until, "ESC-2026-001"}};
    AgentRules rules = makeAgentRules(shipped(), sandbox).value();
    for (CommandRule& rule : rules.level.dangerous)
      rule.outcome = Outcome::kEscalate;
    return wallsOf(rules, kNow).value().walls.without;
  };
  EXPECT_THAT(without("mkfs.ext4 disk", kNow + 1), Not(Contains("mkfs*")));
  EXPECT_THAT(without("mkfs.ext4 disk", kNow + 1), Contains("sudo"));
  EXPECT_THAT(without("mkfs.ext4 disk", kNow), Contains("mkfs*")) << "it is over";
  EXPECT_THAT(without("$x", kNow + 1), ElementsAre("sudo", "dd")) << "it may run any other";
}

TEST(Walls, StandAroundWhatWasApproved) {
  const auto read = [](const std::string& pattern) {
    return approved("standard", "file_read", pattern).walls;
  };
  EXPECT_THAT(read("/root/a").hidden, ElementsAre("/root/*", "/home/*/.ssh/id_*"));
  EXPECT_THAT(read("/root/a").shown, ElementsAre(Shown{"/root/*", "/root/a"}));
  EXPECT_THAT(read("/root/a/*").shown, ElementsAre(Shown{"/root/*", "/root/a"}));
  EXPECT_THAT(read("/root/*.txt").shown, IsEmpty()) << "no path";
  EXPECT_THAT(read("/root/*.txt").hidden, Contains("/root/*"));
  EXPECT_THAT(read("/etc/hosts").shown, IsEmpty()) << "nothing hides it";
  EXPECT_THAT(read("/home/dev/.ssh/id_rsa").shown, IsEmpty()) << "nobody may allow it";
  EXPECT_THAT(read("/root/../root/a").shown, IsEmpty());
  for (const char* all : {"/root/*", "*"}) {
    EXPECT_THAT(read(all).hidden, ElementsAre("/home/*/.ssh/id_*")) << all;
    EXPECT_THAT(read(all).shown, IsEmpty()) << all;
  }
  EXPECT_THAT(approved("standard", "file_write", "/root/a").walls.shown, IsEmpty());
}

TEST(Walls, FollowWhatIsGrantedAndRevoked) {
  EXPECT_FALSE(heldAt("isolated", [](auto& sandbox) {
                 sandbox.granted_operations = {"command_execution"};
               }).walls.only);
  const HeldRules granted =
      heldAt("isolated", [](auto& sandbox) { sandbox.granted_operations = {"file_create"}; });
  EXPECT_EQ(granted.walls.writes, Writes::kNone);
  EXPECT_THAT(
      granted.walls.writable,
      ElementsAre(Writable{kCreate, true, "/workspace"}, Writable{kCreate, true, "/home/user"},
                  Writable{kCreate, true, "/tmp"}, Writable{kCreate, true, "/dev/shm"}));
  const HeldRules training =
      heldAt("training", [](auto& sandbox) { sandbox.granted_operations = {"file_write"}; });
  EXPECT_EQ(training.walls.writable.size(), 3U) << "its keys are elsewhere";
  EXPECT_THAT(
      heldAt("isolated",
             [](auto& sandbox) {
               sandbox.temporary_permissions = {{"file_write", "/workspace/a", kNow + 1, ""}};
               sandbox.revoked_operations = {"file_write"};
             })
          .walls.writable,
      IsEmpty());
  EXPECT_EQ(heldAt("standard",
                   [](auto& sandbox) {
                     sandbox.revoked_operations = {"file_write", "file_create", "file_delete"};
                   })
                .walls.writes,
            Writes::kNone);
}

TEST(Walls, WhatNoPermitCanCarryIsRefused) {
  model::AgentSandbox sandbox;
  sandbox.agent = "alice";
  sandbox.level = "standard";
  for (int i = 0; i < 256; ++i) {
    sandbox.forbidden_paths.push_back("/usr/" + std::string(400, 'a') + std::to_string(i));
  }
  const auto held = wallsOf(makeAgentRules(shipped(), sandbox).value(), kNow);
  ASSERT_FALSE(held);
  EXPECT_THAT(held.error().message, ::testing::HasSubstr("more paths and programs"));
}

}  // namespace
}  // namespace cloister::policy

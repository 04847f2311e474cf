// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/revoked.h"

#include <functional>
#include <optional>

#include <gtest/gtest.h>

namespace cloister::policy {
namespace {

using model::Walls;

Walls some() {
  Walls walls;
  walls.hidden = {"/root/*", "/etc/ssl/*"};
  walls.shown = {{"/root/*", "/root/notes"}};
  walls.without = {"dd"};
  walls.only = {{"cargo", "git"}};
  walls.writes = Walls::Writes::kTemporary;
  walls.writable = {{model::kMayWrite, false, "/workspace/notes"}};
  return walls;
}

TEST(TakesAway, NothingWhereTheRulesAreTheSame) {
  EXPECT_FALSE(takesAway(Walls{}, Walls{}));
  EXPECT_FALSE(takesAway(some(), some()));
}

TEST(TakesAway, WhereWallsCome) {
  EXPECT_TRUE(takesAway(Walls{}, some()));
  EXPECT_FALSE(takesAway(some(), Walls{})) << "whoever may do all may do what it could";
}

TEST(TakesAway, EachKindOfRule) {
  const std::pair<const char*, std::function<void(Walls&)>> kStricter[] = {
      {"a path is hidden", [](Walls& w) { w.hidden.push_back("/home/*"); }},
      {"an approval of a path is over", [](Walls& w) { w.shown.clear(); }},
      {"a program is forbidden", [](Walls& w) { w.without.push_back("nc"); }},
      {"a program is no longer listed", [](Walls& w) { w.only = {{"git"}}; }},
      {"own programs do not run", [](Walls& w) { w.runs_own = false; }},
      {"less can be written", [](Walls& w) { w.writes = Walls::Writes::kNone; }},
      {"an approval to write is over", [](Walls& w) { w.writable.clear(); }}};
  for (const auto& [what, change] : kStricter) {
    Walls after = some();
    change(after);
    EXPECT_TRUE(takesAway(some(), after)) << what;
    EXPECT_FALSE(takesAway(after, some())) << "the other way: " << what;
  }
}

TEST(TakesAway, NothingWhereMoreMayBeDoneAtTheSamePlace) {
  Walls after = some();
  after.writable[0].operations |= model::kMayDelete;
  EXPECT_FALSE(takesAway(some(), after));
  EXPECT_TRUE(takesAway(after, some()));
}

TEST(TakesAway, AnApprovalWithoutNeedIsNone) {
  Walls after = some();
  after.hidden = {"/etc/ssl/*"};
  after.shown.clear();
  EXPECT_FALSE(takesAway(some(), after)) << "what it lay in is open";
  after = some();
  after.writes = Walls::Writes::kAll;
  after.writable.clear();
  EXPECT_FALSE(takesAway(some(), after));
  after = some();
  after.only = std::nullopt;
  EXPECT_FALSE(takesAway(some(), after));
}

}  // namespace
}  // namespace cloister::policy

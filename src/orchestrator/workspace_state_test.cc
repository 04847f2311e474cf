// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/workspace_state.h"

#include <gtest/gtest.h>

namespace cloister::orchestrator {
namespace {

using wire::files::State;

std::vector<State> names() {
  return {{.mode = 0100644, .size = 2, .path = "b", .sum = "two"},
          {.mode = 0100755, .size = 1, .path = "a", .sum = "one"},
          {.mode = 0120777, .size = 0, .path = "c", .sum = "a"}};
}

std::optional<std::string> change(std::vector<State> now) {
  return WorkspaceState(names()).firstChange(WorkspaceState(std::move(now)));
}

TEST(WorkspaceState, TheOrderOfNamesIsNothing) {
  std::vector<State> other = names();
  std::swap(other[0], other[2]);
  EXPECT_FALSE(change(other));
  EXPECT_EQ(WorkspaceState(names()).sha256(), WorkspaceState(other).sha256());
  EXPECT_TRUE(
      WorkspaceState(names()).shown().starts_with("3 files and directories, 3 bytes, sha256 "));
}

TEST(WorkspaceState, TheFirstNameThatDiffersIsTold) {
  std::vector<State> now = names();
  now[0].sum = "TWO";
  EXPECT_EQ(change(now), "b has changed");
  now[1].mode = 0100644;
  EXPECT_EQ(change(now), "a has another type or mode");
  now = names();
  now[2].sum = "b";
  EXPECT_EQ(change(now), "c has changed");
  now.pop_back();
  EXPECT_EQ(change(now), "c was removed");
  now = names();
  now.erase(now.begin());
  EXPECT_EQ(change(now), "b was removed");
  now = names();
  now.push_back({.mode = 0100644, .size = 0, .path = "aa\u202e", .sum = ""});
  EXPECT_EQ(change(now), "aa\\u{202e} is new");
  now.back().path = "z";
  EXPECT_EQ(change(now), "z is new");
  EXPECT_EQ(change({}), "a was removed");
}

TEST(WorkspaceState, ItsOwnModeIsAPartOfIt) {
  std::vector<State> one = names();
  one.push_back({.mode = 040755, .size = 0, .path = "", .sum = ""});
  std::vector<State> two = one;
  two.back().mode = 040777;
  const WorkspaceState was(one);
  EXPECT_EQ(was.firstChange(WorkspaceState(two)), "the workspace itself has another type or mode");
  EXPECT_TRUE(was.shown().starts_with("3 files and directories, 3 bytes")) << was.shown();
}

// No names that run into each other give the digest of others.
TEST(WorkspaceState, NamesAndContentAreApart) {
  const std::vector<State> one = {{.mode = 1, .size = 1, .path = "ab", .sum = "c"}};
  const std::vector<State> two = {{.mode = 1, .size = 1, .path = "a", .sum = "bc"}};
  EXPECT_NE(WorkspaceState(one).sha256(), WorkspaceState(two).sha256());
}

}  // namespace
}  // namespace cloister::orchestrator

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

// By it Python and make choose between a file and what was made of it.
TEST(WorkspaceState, TimesOfFilesAreAPartOfIt) {
  std::vector<State> now = names();
  now[1].modified_s = 1;
  EXPECT_EQ(change(now), "a has another modification time");
  now = names();
  now[0].modified_ns = 1;
  EXPECT_EQ(change(now), "b has another modification time");
  now[0].sum = "TWO";
  EXPECT_EQ(change(now), "b has changed");
}

// What is written into one of them is in the other.
TEST(WorkspaceState, NamesOfOneFileAreAPartOfIt) {
  const auto linked = [](size_t one, size_t two, uint64_t inode, uint64_t device = 1) {
    std::vector<State> all;
    for (const char* path : {"c", "a", "b"})
      all.push_back({.mode = 0100644, .size = 0, .path = path, .sum = "x"});
    for (const size_t each : {one, two}) {
      all[each].device = device;
      all[each].inode = inode;
    }
    return all;
  };
  const WorkspaceState was(linked(0, 1, 7));
  EXPECT_FALSE(was.firstChange(WorkspaceState(linked(1, 0, 9, 2)))) << "in another sandbox";
  EXPECT_EQ(was.firstChange(WorkspaceState(linked(1, 2, 7))), "b has other hard links");
  EXPECT_EQ(was.firstChange(WorkspaceState(linked(0, 2, 7))), "a has other hard links");
  std::vector<State> apart = linked(0, 1, 7);
  apart[1].device = 2;
  EXPECT_EQ(was.firstChange(WorkspaceState(apart)), "c has other hard links");
}

TEST(WorkspaceState, TellsWhatHasNoContent) {
  EXPECT_EQ(WorkspaceState(names()).firstWithoutContent(), std::nullopt);
  for (const auto& [mode, what] : std::initializer_list<std::pair<uint32_t, std::string>>{
           {010644, "the FIFO d/p"}, {0140755, "the socket d/p"}, {020666, "the device d/p"}}) {
    std::vector<State> with = names();
    with.push_back({.mode = mode, .size = 0, .path = "d/p", .sum = ""});
    with.push_back({.mode = 040755, .size = 0, .path = "d", .sum = ""});
    EXPECT_EQ(WorkspaceState(with).firstWithoutContent(), what);
  }
}

// No names that run into each other give the digest of others.
TEST(WorkspaceState, NamesAndContentAreApart) {
  const std::vector<State> one = {{.mode = 1, .size = 1, .path = "ab", .sum = "c"}};
  const std::vector<State> two = {{.mode = 1, .size = 1, .path = "a", .sum = "bc"}};
  EXPECT_NE(WorkspaceState(one).sha256(), WorkspaceState(two).sha256());
}

}  // namespace
}  // namespace cloister::orchestrator

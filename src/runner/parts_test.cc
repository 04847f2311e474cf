// SPDX-License-Identifier: Apache-2.0
// The runner's pure parts: globs, command text, file table, stdin buffer.
#include <errno.h>

#include <memory>

#include <gtest/gtest.h>

#include "runner/channel.h"
#include "runner/command_text.h"
#include "runner/file_table.h"
#include "runner/glob.h"
#include "runner/tail.h"

namespace cloister::runner {
namespace {

TEST(Glob, Matches) {
  const std::pair<const char*, const char*> matching[] = {
      {"**", "a"},
      {"**", "a/b/c"},
      {"*", "a"},
      {"*.png", "plot.png"},
      {"a/*", "a/b"},
      {"**/x", "x"},
      {"**/x", "a/b/x"},
      {"a/**", "a/b/c"},
      {"a/**/z", "a/z"},
      {"a/**/z", "a/b/c/z"},
      {"?at", "cat"},
      {"[a-c]x", "bx"},
      {"[!a-c]x", "dx"},
      {"[]x]", "]"},
      {"[a-]", "-"},
      {"\\*", "*"},
      {"a*b*c", "aXbXbXc"},
      {"**/*.txt", "a.txt"},
      {"**/b/**/c", "b/x/b/c"},
      {"[", "["},
      {"out/**/*.c?v", "out/1/2/a.csv"},
      {"**/a/*/b", "a/x/a/y/b"},
      {"**/**/a", "a"},
      {"***", "ab"},
  };
  for (const auto& [pattern, path] : matching)
    EXPECT_TRUE(globMatch(pattern, path)) << pattern << " " << path;
}

TEST(Glob, DoesNotMatch) {
  const std::pair<const char*, const char*> different[] = {
      {"*", "a/b"},      {"*.png", "a/plot.png"},
      {"a/**", "a"},     {"a/**", "ab/c"},
      {"", "a"},         {"a", ""},
      {"a", "a/b"},      {"a/b", "a"},
      {"[a-c]", "d"},    {"[!a]", "a"},
      {"?", "/"},        {"a?b", "a/b"},
      {"\\*", "x"},      {"**/x", "a/y"},
      {"a/**/z", "b/z"}, {"[a", "a"},
  };
  for (const auto& [pattern, path] : different)
    EXPECT_FALSE(globMatch(pattern, path)) << pattern << " " << path;
}

TEST(Glob, StaysQuickOnHostilePatterns) {
  std::string deep;
  std::string pattern;
  for (int i = 0; i < 500; ++i) {
    deep += "a/";
    pattern += "**/a*a*a*/";
  }
  EXPECT_FALSE(globMatch(pattern + "b", deep + "c"));
  EXPECT_FALSE(globMatch(std::string(2000, '*') + "b", std::string(2000, 'a')));
}

using SmallText = BasicCommandText<32, 2>;

TEST(CommandText, BuildsNullTerminatedLists) {
  SmallText text;
  EXPECT_TRUE(text.add(TextKind::kArgument, false, "a"));
  EXPECT_TRUE(text.add(TextKind::kEnvironment, false, "X=1"));
  EXPECT_TRUE(text.add(TextKind::kArgument, true, "b"));
  EXPECT_TRUE(text.add(TextKind::kArgument, false, "c"));
  ASSERT_EQ(text.error(), 0);
  EXPECT_STREQ(text.argv()[0], "a");
  EXPECT_STREQ(text.argv()[1], "bc");
  EXPECT_EQ(text.argv()[2], nullptr);
  EXPECT_STREQ(text.envp()[0], "X=1");
  EXPECT_EQ(text.envp()[1], nullptr);
}

TEST(CommandText, RemembersWhatIsWrong) {
  SmallText text;
  EXPECT_EQ(text.error(), EINVAL) << "no argument";
  text.add(TextKind::kArgument, false, std::string(31, 'a'));
  EXPECT_EQ(text.error(), 0) << "exactly full";
  text.add(TextKind::kArgument, false, "");
  EXPECT_EQ(text.error(), E2BIG);
  text.clear();
  for (int i = 0; i < 3; ++i)
    text.add(TextKind::kArgument, false, "a");
  EXPECT_EQ(text.error(), E2BIG) << "three strings in room for two";
  text.clear();
  text.add(TextKind::kArgument, false, std::string_view("a\0b", 3));
  EXPECT_EQ(text.error(), EINVAL);
  text.clear();
  text.add(TextKind::kArgument, true, "a");
  EXPECT_EQ(text.error(), EINVAL) << "left open";
  EXPECT_FALSE(text.add(TextKind::kEnvironment, false, "b")) << "another kind in between";
}

struct stat statOf(uint64_t inode, int64_t size, int64_t mtime) {
  struct stat st{};
  st.st_ino = inode;
  st.st_size = size;
  st.st_mtim.tv_sec = mtime;
  return st;
}

TEST(FileTable, TellsChangedFromUnchanged) {
  auto table = std::make_unique<BasicFileTable<16>>();
  ASSERT_TRUE(table->add("a", statOf(1, 10, 100)));
  EXPECT_TRUE(table->unchanged("a", statOf(1, 10, 100)));
  EXPECT_FALSE(table->unchanged("a", statOf(2, 10, 100)));
  EXPECT_FALSE(table->unchanged("a", statOf(1, 11, 100)));
  EXPECT_FALSE(table->unchanged("a", statOf(1, 10, 101)));
  EXPECT_FALSE(table->unchanged("b", statOf(1, 10, 100)));
  table->clear();
  EXPECT_FALSE(table->unchanged("a", statOf(1, 10, 100)));
}

TEST(FileTable, TreatsWhatDoesNotFitAsNew) {
  auto table = std::make_unique<BasicFileTable<16>>();
  for (int i = 0; i < 12; ++i)
    ASSERT_TRUE(table->add(std::to_string(i), statOf(1, 1, 1)));
  EXPECT_FALSE(table->add("more", statOf(1, 1, 1)));
  EXPECT_FALSE(table->unchanged("more", statOf(1, 1, 1)));
  EXPECT_TRUE(table->unchanged("7", statOf(1, 1, 1)));
}

TEST(StdinBuffer, WrapsAroundWithoutLoss) {
  const auto bytes = std::make_unique<char[]>(wire::kStdinWindow);
  auto buffer = std::make_unique<StdinBuffer>();
  buffer->use(bytes.get());
  std::string in;
  std::string out;
  for (int i = 0; i < 100; ++i) {
    const std::string piece(50'000, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(buffer->add(piece));
    in += piece;
    while (buffer->size() > 120'000) {
      const std::string_view front = buffer->front().substr(0, 33'333);
      out += front;
      buffer->take(front.size());
    }
  }
  while (!buffer->empty()) {
    out += buffer->front();
    buffer->take(buffer->front().size());
  }
  EXPECT_EQ(in, out);
  EXPECT_TRUE(buffer->add(std::string(wire::kStdinWindow, 'x')));
  EXPECT_FALSE(buffer->add("x"));
}

TEST(Tail, HasTheLastBytesInOrder) {
  const auto tail = std::make_unique<Tail>();
  std::string all;
  const auto add = [&](std::string_view bytes) {
    tail->add(bytes);
    all += bytes;
    const size_t kept = std::min(all.size(), Tail::kMost);
    EXPECT_EQ(std::string(tail->older()) + std::string(tail->newer()),
              all.substr(all.size() - kept));
    EXPECT_EQ(tail->lost(), all.size() - kept);
  };
  const auto filled = [](size_t size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i)
      bytes += static_cast<char>('a' + i % 23);
    return bytes;
  };
  add("");
  add("first");
  for (const size_t size : {Tail::kMost - 6, size_t{1}, size_t{1}, size_t{100}, Tail::kMost - 1,
                            Tail::kMost, Tail::kMost + 1, 3 * Tail::kMost + 7, size_t{9}})
    add(filled(size));
  tail->clear();
  all.clear();
  add("anew");
}

}  // namespace
}  // namespace cloister::runner

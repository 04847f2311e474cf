// SPDX-License-Identifier: Apache-2.0
// Watching a directory: through the whole runner, with inotify; and the table of directories.
#include "runner/watch.h"

#include <errno.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "runner/testing/jail.h"
#include "runner/watched.h"
#include "wire/files_codec.h"

namespace cloister::runner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Ended;
using testing::Jail;
using ::testing::Not;
using wire::FromRunner;
using wire::files::ChangeKind;

constexpr uint32_t kWatching = 7;

class WatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto jail = Jail::start(base::programDir() + "/cloister-runner");
    if (!jail) GTEST_SKIP() << jail.error().message;
    jail_ = std::move(*jail);
  }

  // Starts a watch, and returns the events before it is ready.
  std::vector<std::string> watch(const std::string& path, bool all,
                                 const std::string& most = "64") {
    jail_->startProgram(kWatching, {"watch", path, all ? "1" : "0", most}, wire::kStartFiles);
    return until("ready ");
  }

  // The events up to and including `last`.
  std::vector<std::string> until(const std::string& last) {
    std::vector<std::string> said;
    while (said.empty() || said.back() != last) {
      const auto change = next();
      if (!change) {
        ADD_FAILURE() << "no " << last << " in " << ::testing::PrintToString(said);
        break;
      }
      said.push_back(*change);
    }
    return said;
  }

  // Runs a script to its end, and keeps the watch's events meanwhile.
  void shell(const std::string& script) {
    jail_->startProgram(1, {"/bin/sh", "-c", script}, 0);
    for (;;) {
      const auto frame = jail_->next();
      ASSERT_TRUE(frame);
      take(*frame);
      if (frame->channel == 1 && frame->type == FromRunner::kExited) return;
    }
  }

  // The paths below the workspace; directories end with a slash.
  std::set<std::string> present() {
    jail_->startProgram(
        1, {"/bin/sh", "-c", "find . -mindepth 1 -type d -printf '%P/\\n' -o -printf '%P\\n'"}, 0);
    std::string out;
    for (;;) {
      const auto frame = jail_->next();
      if (!frame) break;
      take(*frame);
      if (frame->channel != 1) continue;
      if (frame->type == FromRunner::kStdout) out += frame->payload;
      if (frame->type == FromRunner::kExited) break;
    }
    std::istringstream lines(out);
    std::set<std::string> paths;
    for (std::string line; std::getline(lines, line);)
      paths.insert(line);
    return paths;
  }

  std::unique_ptr<Jail> jail_;
  bool over_ = false;

 private:
  void take(const testing::Frame& frame) {
    if (frame.channel != kWatching) return;
    if (frame.type == FromRunner::kStdout) bytes_ += frame.payload;
    if (frame.type == FromRunner::kExited) over_ = true;
  }

  std::optional<std::string> next() {
    static constexpr const char* kNames[] = {"ready",   "created",  "modified", "moved",
                                             "removed", "overflow", "limit"};
    for (;;) {
      std::string_view rest = bytes_;
      const auto part = wire::files::takePart(rest);
      if (!part) return std::nullopt;
      if (*part) {
        bytes_ = std::string(rest);
        if (std::holds_alternative<wire::files::EndOfEntries>(**part)) return "end";
        const auto& change = std::get<wire::files::Change>(**part);
        const std::string from = change.from.empty() ? "" : change.from + " > ";
        return std::string(kNames[static_cast<int>(change.kind)]) + " " + from + change.path +
               (change.directory && !change.path.empty() ? "/" : "");
      }
      if (over_) return std::nullopt;
      const auto frame = jail_->next();
      if (!frame) return std::nullopt;
      take(*frame);
    }
  }

  std::string bytes_;
};

// Stops the watching process, so that the process sees all later events only after `$resume`.
const std::string kPauseWatch =
    "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = 1 ] || [ $p = $$ ] || kill -STOP $p; done; "
    "resume='kill -CONT -1'; ";

// The paths reported by events so far; directories end with a slash.
class TreeOfEvents {
 public:
  void apply(const std::vector<std::string>& events) {
    for (const std::string& event : events) {
      const size_t space = event.find(' ');
      const std::string kind = event.substr(0, space);
      const std::string path = event.substr(space + 1);
      if (kind == "created") paths_.insert(path);
      if (kind == "removed") take(path);
      if (kind == "moved") {
        const size_t arrow = path.find(" > ");
        move(path.substr(0, arrow), path.substr(arrow + 3));
      }
      EXPECT_TRUE(kind != "overflow" && kind != "limit") << event;
    }
  }
  [[nodiscard]] const std::set<std::string>& paths() const { return paths_; }

 private:
  // `from` is without its slash.
  void move(std::string from, const std::string& to) {
    if (to.ends_with('/')) from += '/';
    if (paths_.contains(from)) {
      take(to);
      for (const std::string& path : take(from))
        paths_.insert(to + path.substr(from.size()));
    }
    paths_.insert(to);
  }

  std::vector<std::string> take(const std::string& path) {
    std::vector<std::string> taken;
    std::ranges::copy_if(paths_, std::back_inserter(taken), [&](const std::string& each) {
      return each == path || (path.ends_with('/') && each.starts_with(path));
    });
    for (const std::string& each : taken)
      paths_.erase(each);
    return taken;
  }

  std::set<std::string> paths_;
};

// Makes, moves and removes directories with few names, so that names collide.
std::string history(std::minstd_rand& random) {
  const auto pick = [&](int count) { return static_cast<int>(random() % count); };
  const auto path = [&] {
    std::string path(1, static_cast<char>('a' + pick(3)));
    for (int depth = pick(3); depth > 0; --depth)
      path += std::string("/") + static_cast<char>('a' + pick(3));
    return path;
  };
  std::string script;
  for (int i = 0; i < 25; ++i) {
    const std::string one = path();
    const std::string steps[] = {"mkdir -p " + one,
                                 "mkdir -p " + one + "/" + path(),
                                 "touch " + one + "/f" + std::to_string(i % 4),
                                 "mv -T " + one + " " + path(),
                                 "mv -T " + one + " " + path(),
                                 "rm -r " + one};
    script += steps[pick(6)] + " 2>/dev/null; ";
  }
  return script;
}

TEST_F(WatchTest, TellsWhatHappensToFiles) {
  shell("mkdir d; echo 1 > d/old; echo 1 > beside");
  EXPECT_THAT(watch("d", false), ElementsAre("ready "));
  shell(
      "echo 2 >> d/old; echo x > beside; mv d/old d/new; rm d/new; mv beside d/came; mv d/came "
      "gone; touch d/z");
  const auto said = until("created z");
  EXPECT_THAT(said, ElementsAre("modified old", "moved old > new", "removed new", "created came",
                                "removed came", "created z"));
}

TEST_F(WatchTest, FollowsDirectoriesAsTheyComeMoveAndGo) {
  shell("mkdir -p a/b");
  watch("", true);
  shell(
      "touch a/b/1; mv a c; touch c/b/2; mkdir -p new/deep; touch new/deep/3; rm -r c; touch last");
  const auto said = until("created last");
  for (const char* one : {"created a/b/1", "moved a > c/", "created c/b/2", "created new/",
                          "removed c/b/2", "removed c/b/", "removed c/"})
    EXPECT_THAT(said, Contains(one));
  EXPECT_THAT(said, Contains("created new/deep/3"));  // though possibly older than its watch
}

TEST_F(WatchTest, FollowsADirectoryThatIsMovedBeforeThoseInItAreWatched) {
  watch("", true);
  shell("mkdir d d/deep");
  until("created d/deep/");
  shell(kPauseWatch + "mkdir d/new d/deep/new; mv d e; mkdir e/deep/new/er; $resume");
  until("moved d > e/");
  shell("touch e/new/one e/deep/new/two e/deep/new/er/three; touch last");
  const auto said = until("created last");
  for (const char* one :
       {"created e/new/one", "created e/deep/new/two", "created e/deep/new/er/three"})
    EXPECT_THAT(said, Contains(one));
}

TEST_F(WatchTest, KeepsApartDirectoriesThatHadOneName) {
  watch("", true);
  shell(kPauseWatch + "mkdir x; touch x/1; mv x y; mkdir x; touch x/2; mv x z; mkdir x; $resume");
  shell("touch x/x y/y z/z; touch last");
  const auto said = until("created last");
  for (const char* one : {"created x/x", "created y/y", "created z/z"})
    EXPECT_THAT(said, Contains(one));
}

TEST_F(WatchTest, FollowsTwoDirectoriesThatAreExchanged) {
  shell("mkdir a b; touch a/1 b/2");
  watch("", true);
  shell(
      "python3 -c 'import ctypes; print(ctypes.CDLL(None).renameat2(-100, b\"a\", -100, b\"b\", "
      "2))'; "
      "touch a/3 b/4; touch last");
  const auto said = until("created last");
  for (const char* one : {"created a/3", "created b/4"})
    EXPECT_THAT(said, Contains(one));
}

class WatchHistoryTest : public WatchTest, public ::testing::WithParamInterface<uint32_t> {};

// Applying the events must result in the actual tree.
TEST_P(WatchHistoryTest, WhatItTellsIsWhatIsThere) {
  TreeOfEvents told;
  told.apply(watch("", true, "512"));
  std::minstd_rand random(GetParam());
  for (int round = 0; round < 6 && !HasFailure(); ++round) {
    // The watch handles the events either after all have happened, or meanwhile.
    shell(round % 2 == 0 ? kPauseWatch + history(random) + "$resume" : history(random));
    const std::string last = "last" + std::to_string(round);
    shell("touch " + last);
    told.apply(until("created " + last));
    EXPECT_EQ(told.paths(), present()) << "round " << round;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, WatchHistoryTest, ::testing::Range(1U, 5U));

TEST_F(WatchTest, OneLevelIsOneLevel) {
  shell("mkdir -p d/e");
  watch("d", false);
  shell("touch d/e/below; mkdir d/f; touch d/f/below; touch d/last");
  EXPECT_THAT(until("created last"), ElementsAre("created f/", "created last"));
}

TEST_F(WatchTest, SaysWhatItDoesNotWatch) {
  shell("for n in 1 2 3 4 5 6 7 8 9; do mkdir $n; done");
  const auto begun = watch("", true, "5");
  EXPECT_EQ(std::ranges::count_if(begun, [](const auto& s) { return s.starts_with("limit "); }), 5);
  shell("mkdir more; touch last");
  EXPECT_THAT(until("created last"), Contains("limit more/"));
}

TEST_F(WatchTest, BoundsWhatItSaysOfThat) {
  shell("i=0; while [ $i -lt 60 ]; do mkdir d$i; i=$((i+1)); done");
  const auto begun = watch("", true, "1");
  EXPECT_EQ(begun.size(), wire::files::kMostLimits + 2);
  EXPECT_EQ(begun[begun.size() - 2], "limit ");
}

TEST_F(WatchTest, EndsWithItsDirectory) {
  shell("mkdir d");
  watch("d", true);
  shell("rmdir d");
  EXPECT_THAT(until("end"), ElementsAre("removed ", "end"));
}

TEST_F(WatchTest, AnUploadIsOneChange) {
  watch("", true);
  for (const char* text : {"first", "second"}) {
    jail_->startProgram(2, {"write", "up", ""}, wire::kStartFiles | wire::kStartStdin);
    jail_->send(wire::ToRunner::kStdin, 2, text);
    jail_->send(wire::ToRunner::kStdin, 2);
    until(text[0] == 'f' ? "created up" : "modified up");
  }
  shell("touch last");
  const auto said = until("created last");
  EXPECT_THAT(said, Not(Contains(::testing::HasSubstr(wire::files::kUploadName))));
}

TEST_F(WatchTest, HoldsUpWithAStorm) {
  watch("", true);
  shell(
      "mkdir a; i=0; while [ $i -lt 300 ]; do mkdir a/x; mv a/x a/y; mv a b; mv b a; rmdir a/y; "
      "i=$((i+1)); done; sleep 0.3; mkdir a/here; sleep 0.3; touch a/here/last");
  until("created a/here/last");
}

TEST_F(WatchTest, RefusesWhatIsNoDirectory) {
  shell("touch f; ln -s . link");
  for (const auto& [path, error] : {std::pair{"f", ENOTDIR}, std::pair{"link", ELOOP},
                                    std::pair{"gone", ENOENT}, std::pair{"..", EINVAL}}) {
    jail_->startProgram(2, {"watch", path, "1", "64"}, wire::kStartFiles);
    const Ended ended = jail_->finish(2);
    EXPECT_EQ(ended.code, static_cast<uint32_t>(wire::files::kFailed));
    const auto said = static_cast<int>(wire::Reader(ended.err).u32());
    EXPECT_TRUE(said == error || (said == ENOTDIR && error == ELOOP)) << path << " " << said;
  }
}

TEST(WatchedTreeTest, MovesWhatIsBeneathAndForgetsIt) {
  static WatchedTree tree;
  tree.bound(4);
  char path[64];
  const auto pathOf = [&](int at, std::string_view name) {
    const size_t length = tree.path(at, name, path, sizeof path);
    return length == 0 ? std::string("?") : std::string(path, length - 1);
  };
  tree.add(10, 0, "");
  const int a = tree.add(11, 0, "a");
  const int b = tree.add(12, a, "b");
  const int c = tree.add(13, b, "c");
  EXPECT_EQ(tree.add(14, c, "d"), WatchedTree::kNone);
  EXPECT_EQ(pathOf(c, "x"), "a/b/c/x");
  EXPECT_EQ(pathOf(0, ""), "");
  EXPECT_EQ(tree.depth(c), 3U);
  EXPECT_FALSE(tree.place(a, c, "a"));
  ASSERT_TRUE(tree.place(b, 0, "moved"));
  EXPECT_EQ(pathOf(c, ""), "moved/c");
  EXPECT_EQ(tree.child(0, "moved"), b);
  EXPECT_EQ(tree.path(c, std::string(60, 'x'), path, sizeof path), 0U);
  std::vector<int> gone;
  tree.drop(b, [&](int wd) { gone.push_back(wd); });
  EXPECT_THAT(gone, ::testing::UnorderedElementsAre(12, 13));
  EXPECT_EQ(tree.find(13), WatchedTree::kNone);
  EXPECT_EQ(tree.find(11), a);
  tree.unsee();
  gone.clear();
  tree.sweep([&](int wd) { gone.push_back(wd); });
  EXPECT_THAT(gone, ElementsAre(11));
}

}  // namespace
}  // namespace cloister::runner

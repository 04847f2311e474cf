// SPDX-License-Identifier: Apache-2.0
#include "images/layer.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "images/archive_maker.h"
#include "images/finish_tree.h"
#include "images/remove_tree.h"

namespace cloister::images {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class Layers : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(scratch_.path("root"));
    writeFile(scratch_.path("outside/secret"), "secret");
    root_ = Fd(::open(scratch_.path("root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    tree_.emplace(root_.get(), bounds_);
  }

  Result<LayerResult> apply(const TarMaker& tar) {
    TextSource source(tar.bytes());
    return applyLayer(source, *tree_, true);
  }
  void good(const TarMaker& tar) {
    const auto done = apply(tar);
    ASSERT_TRUE(done) << done.error().message;
  }
  void refused(const TarMaker& tar, const char* why) {
    const auto done = apply(tar);
    ASSERT_FALSE(done) << why;
    EXPECT_THAT(done.error().message, HasSubstr(why));
    EXPECT_EQ(base::readFile(scratch_.path("outside/secret")).value(), "secret");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path("outside")), {}), 1);
  }
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    return contentsOf(scratch_.path("root"));
  }
  [[nodiscard]] mode_t modeOf(const std::string& name) const {
    struct stat status{};
    EXPECT_EQ(::lstat(scratch_.path("root/" + name).c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  Scratch scratch_;
  Bounds bounds_;
  Fd root_;
  std::optional<Tree> tree_;
};

TEST_F(Layers, MakeATree) {
  good(TarMaker()
           .directory("./")
           .directory("./usr/bin", 0775)
           .file("usr/bin/sh", "#!", 04755)
           .link("bin", "usr/bin")
           .hardLink("usr/bin/bash", "usr/bin/sh")
           .file("./deep/er/file", "x", 0)
           .file("empty", ""));
  EXPECT_THAT(contents(),
              UnorderedElementsAre(
                  Pair("usr", "d"), Pair("usr/bin", "d"), Pair("usr/bin/sh", "f #!"),
                  Pair("usr/bin/bash", "f #!"), Pair("bin", "l usr/bin"), Pair("deep", "d"),
                  Pair("deep/er", "d"), Pair("deep/er/file", "f x"), Pair("empty", "f ")));
  EXPECT_EQ(modeOf("usr/bin"), 0755U);
  EXPECT_EQ(modeOf("usr/bin/sh"), 0755U);
  EXPECT_EQ(modeOf("deep/er/file"), 0400U);
}

TEST_F(Layers, WriteThroughLinksInsideOnly) {
  good(TarMaker().directory("usr/bin").link("bin", "/usr/bin").link("up", "../../../../outside"));
  good(TarMaker().file("bin/sh", "new").directory("outside"));
  EXPECT_THAT(contents(), Contains(Pair("usr/bin/sh", "f new")));
  // `up` leads to outside/ in the image, not on the host.
  good(TarMaker().file("up/secret", "mine"));
  EXPECT_THAT(contents(), Contains(Pair("outside/secret", "f mine")));
  EXPECT_EQ(base::readFile(scratch_.path("outside/secret")).value(), "secret");
}

TEST_F(Layers, CannotLeaveTheRoot) {
  const std::string outside = scratch_.path("outside");
  refused(TarMaker().file("../outside/new", "x"), "leads out of the image");
  refused(TarMaker().file("a/../../outside/new", "x"), "leads out of the image");
  refused(TarMaker().directory(".."), "leads out of the image");
  refused(TarMaker().link("out", outside).file("out/new", "x"), "\"out\": is a link to nothing");
  refused(TarMaker().hardLink("a", "../outside/secret"), "leads out of the image");
  refused(TarMaker().hardLink("a", outside + "/secret"), "no file of the image");
  refused(TarMaker().link("b", outside).hardLink("a", "b/secret"), "no file of the image");
  refused(TarMaker().file(".wh...", ""), "a whiteout of nothing");
  refused(TarMaker().file(".wh..", ""), "a whiteout of nothing");
  refused(TarMaker().file(".wh.", ""), "a whiteout of nothing");
  refused(TarMaker().file(".", "x"), "is the image itself");
  good(TarMaker().file("/absolute/name", "inside"));
  EXPECT_THAT(contents(), Contains(Pair("absolute/name", "f inside")));
  good(TarMaker().link("link", outside + "/secret").file("link", "replaced"));
  EXPECT_THAT(contents(), Contains(Pair("link", "f replaced")));
  // A whiteout through a link: nothing there, nothing gone.
  good(TarMaker().link("dir", outside).file("dir/.wh.secret", "").file("dir/.wh..wh..opq", ""));
  EXPECT_EQ(base::readFile(outside + "/secret").value(), "secret");
}

TEST_F(Layers, LeaveOutDevices) {
  good(TarMaker().file("was", "a file"));
  const auto done = apply(TarMaker()
                              .add('3', "dev/null", {}, 0666)
                              .add('4', "dev/sda", {}, 0666)
                              .add('6', "fifo")
                              .add('3', "was"));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->left_out, 4U);
  EXPECT_TRUE(contents().empty());
}

TEST_F(Layers, ReplaceWhatTheyName) {
  good(TarMaker().file("a/b/c", "1").file("f", "1").link("l", "a").directory("d"));
  good(TarMaker().file("a", "now a file").directory("f").directory("l").link("d", "f"));
  EXPECT_THAT(contents(), UnorderedElementsAre(Pair("a", "f now a file"), Pair("f", "d"),
                                               Pair("l", "d"), Pair("d", "l f")));
  // Twice in the same layer: the last counts. A hard link keeps its original file.
  good(TarMaker().file("x", "1").hardLink("y", "x").file("x", "2").hardLink("x", "x"));
  EXPECT_THAT(contents(), Contains(Pair("x", "f 2")));
  EXPECT_THAT(contents(), Contains(Pair("y", "f 1")));
  refused(TarMaker().file("x/below", ""), "is no directory");
}

TEST_F(Layers, WhiteoutsHideEarlierLayersOnly) {
  good(TarMaker().file("d/old", "1").file("d/sub/old", "1").file("gone", "1").file("kept", "1"));
  good(TarMaker()
           .file("d/new", "2")
           .file("d/sub/new", "2")
           .file("d/.wh..wh..opq", "")
           .file(".wh.gone", "")
           .file("kept", "2")
           .file(".wh.kept", "")
           .file(".wh.never", "")
           .file("no/where/.wh.x", "")
           .file(".wh..wh.plnk", ""));
  EXPECT_THAT(contents(),
              UnorderedElementsAre(Pair("d", "d"), Pair("d/new", "f 2"), Pair("d/sub", "d"),
                                   Pair("d/sub/new", "f 2"), Pair("kept", "f 2")));
}

TEST_F(Layers, AWhiteoutTakesALinkAndNotWhatItNames) {
  good(TarMaker().file("real/file", "1").link("real/inner", "/real").link("link", "real"));
  good(TarMaker().file(".wh.link", ""));
  EXPECT_THAT(contents(), Contains(Pair("real/file", "f 1")));
  EXPECT_THAT(contents(), Not(Contains(Key("link"))));
  good(TarMaker().file(".wh.real", ""));
  EXPECT_TRUE(contents().empty());
}

TEST_F(Layers, BoundNames) {
  refused(TarMaker().file(std::string(256, 'x'), ""), "255 bytes");
  std::string path;
  for (int i = 0; i < 65; ++i)
    path += "d/";
  refused(TarMaker().directory(path), "64 directories deep");
  std::string name;
  for (int i = 0; i < 30; ++i)
    name += std::string(200, 'n') + "/";
  refused(TarMaker().directory(name), "4095 bytes");
  // Each link begins at the end of the previous link.
  TarMaker deep;
  for (int i = 0; i < 20; ++i) {
    const std::string before = i == 0 ? "" : "l" + std::to_string(i - 1) + "/";
    deep.directory(before + "a/b/c/d/e");
    deep.link("l" + std::to_string(i), before + "a/b/c/d/e");
  }
  refused(deep, "64 directories deep");
}

TEST_F(Layers, BoundSizes) {
  bounds_ = {.bytes = 10'000, .files = 20};
  tree_.emplace(root_.get(), bounds_);
  refused(TarMaker().announce("big", uint64_t{1} << 32), "images.max_mb");
  refused(TarMaker().file("a", std::string(6'000, 'x')).file("a", std::string(6'000, 'x')),
          "images.max_mb");
  tree_.emplace(root_.get(), bounds_);
  TarMaker many;
  for (int i = 0; i < 21; ++i)
    many.file("same", "");
  refused(many, "20 entries; see images.max_files");
  tree_.emplace(root_.get(), bounds_);
  refused(TarMaker().directory("dir/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u"), "images.max_files");
}

TEST_F(Layers, RefuseWhatIsCut) {
  const std::string whole = TarMaker().file("a", std::string(5'000, 'x')).bytes();
  for (const size_t size : {100U, 700U, 4'000U}) {
    TextSource source(whole.substr(0, size));
    EXPECT_FALSE(applyLayer(source, *tree_, true)) << size;
  }
  TextSource noise("this is no archive, whatever else it is" + std::string(2'000, 'z'));
  EXPECT_FALSE(applyLayer(noise, *tree_, true));
  TextSource nothing("");
  EXPECT_TRUE(applyLayer(nothing, *tree_, true));
}

TEST_F(Layers, AreDecompressedWithinABudget) {
  const std::string tar = TarMaker().file("zeros", std::string(3 << 20, '\0')).bytes();
  for (const bool zstd : {false, true}) {
    uint64_t budget = tar.size();
    TextSource packed(compressed(tar, zstd));
    PlainSource plain(packed, budget);
    Tree tree(root_.get(), Bounds());
    ASSERT_TRUE(applyLayer(plain, tree, true));
    EXPECT_EQ(budget, 0U);
    EXPECT_EQ(plain.digest(), "sha256:" + base::sha256Hex(tar));
    budget = tar.size() - 1;
    TextSource bomb(compressed(tar, zstd));
    PlainSource over(bomb, budget);
    const auto done = applyLayer(over, tree, true);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("images.max_mb"));
    budget = tar.size();
    const std::string bytes = compressed(tar, zstd);
    TextSource cut(bytes.substr(0, bytes.size() / 2));
    PlainSource half(cut, budget);
    EXPECT_FALSE(applyLayer(half, tree, true));
  }
}

TEST_F(Layers, AreFinished) {
  good(TarMaker().file("run", "a file").link("tmp", "/etc").file("dev/null", "x").file("a", "12"));
  good(TarMaker().hardLink("b", "a").file("proc/x/y", ""));
  ::chmod(scratch_.path("root/a").c_str(), 06777);
  ::mkfifo(scratch_.path("root/fifo").c_str(), 0666);
  const auto size = finishTree(root_.get(), Bounds());
  ASSERT_TRUE(size) << size.error().message;
  EXPECT_EQ(size->bytes, 2U);
  EXPECT_THAT(
      contents(),
      UnorderedElementsAre(Pair("run", "d"), Pair("tmp", "d"), Pair("dev", "d"), Pair("proc", "d"),
                           Pair("workspace", "d"), Pair("etc", "d"), Pair("home", "d"),
                           Pair("home/user", "d"), Pair("a", "f 12"), Pair("b", "f 12")));
  EXPECT_EQ(size->files, 10U);
  EXPECT_EQ(modeOf("a"), 0755U);
  EXPECT_EQ(modeOf("etc"), 0755U);
}

TEST_F(Layers, AreNotFinishedWhenLinkedFromOutside) {
  good(TarMaker().file("a", "x"));
  ASSERT_EQ(::link(scratch_.path("root/a").c_str(), scratch_.path("outside/a").c_str()), 0);
  const auto size = finishTree(root_.get(), Bounds());
  ASSERT_FALSE(size);
  EXPECT_THAT(size.error().message, HasSubstr("linked from outside"));
  ASSERT_EQ(::unlink(scratch_.path("outside/a").c_str()), 0);
  EXPECT_FALSE(finishTree(root_.get(), {.bytes = 0, .files = 100}));
  EXPECT_FALSE(finishTree(root_.get(), {.bytes = 100, .files = 0}));
  EXPECT_TRUE(finishTree(root_.get(), {.bytes = 1, .files = 1}));
}

TEST_F(Layers, AreCopiedFromADirectory) {
  const std::string from = scratch_.path("from");
  writeFile(from + "/a/file", "x");
  std::filesystem::create_symlink("../outside", from + "/link");
  std::filesystem::create_hard_link(from + "/a/file", from + "/b");
  ::mkfifo((from + "/fifo").c_str(), 0666);
  const Fd fd(::open(from.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto done = copyTree(fd.get(), *tree_);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->left_out, 1U);
  EXPECT_THAT(contents(), UnorderedElementsAre(Pair("a", "d"), Pair("a/file", "f x"),
                                               Pair("b", "f x"), Pair("link", "l ../outside")));
  EXPECT_TRUE(std::filesystem::equivalent(scratch_.path("root/b"), scratch_.path("root/a/file")));
}

TEST_F(Layers, AreRemovedHoweverDeep) {
  Fd at(::open(scratch_.path("root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::mkdirat(at.get(), ".deep-0", 0), 0);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0700), 0);
    at = Fd(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at);
  }
  const Fd scratch = scratch_.open();
  ASSERT_TRUE(removeTree(scratch.get(), "root"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("root")));
  EXPECT_TRUE(removeTree(scratch.get(), "root"));
}

}  // namespace
}  // namespace cloister::images

// SPDX-License-Identifier: Apache-2.0
// Files in and out of the workspace, through the whole runner.
#include "runner/workspace.h"

#include <errno.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "runner/beneath.h"
#include "runner/testing/jail.h"

namespace cloister::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Jail;
using wire::FromRunner;
using wire::ToRunner;

struct Collected {
  std::vector<std::string> paths;
  std::vector<std::string> contents;
  uint32_t left_out = 0;
};

class WorkspaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto jail = Jail::start(base::programDir() + "/cloister-runner");
    if (!jail) GTEST_SKIP() << jail.error().message;
    jail_ = std::move(*jail);
  }

  // Reads up to the expected kFileFailed.
  int fileError() {
    const auto frame = jail_->next();
    if (!frame || frame->type != FromRunner::kFileFailed) return 0;
    return static_cast<int>(wire::Reader(frame->payload).u32());
  }

  Collected collect(const std::vector<std::string>& globs, uint32_t max_files = 64,
                    uint64_t max_bytes = 1 << 24) {
    char buffer[4096];
    wire::Writer w(buffer, sizeof buffer);
    w.u32(max_files);
    w.u64(max_bytes);
    w.u32(static_cast<uint32_t>(globs.size()));
    for (const std::string& glob : globs)
      w.bytes(glob);
    jail_->send(ToRunner::kCollect, 9, w.view());
    Collected all;
    uint64_t left = 0;
    for (;;) {
      const auto frame = jail_->next();
      EXPECT_TRUE(frame && frame->channel == 9U);
      if (!frame) return all;
      wire::Reader r(frame->payload);
      if (frame->type == FromRunner::kCollected) {
        EXPECT_EQ(left, 0U);
        all.left_out = r.u32();
        return all;
      }
      if (frame->type == FromRunner::kFileBegin) {
        EXPECT_EQ(left, 0U);
        all.paths.emplace_back(r.bytes());
        all.contents.emplace_back();
        left = r.u64();
      } else {
        all.contents.back() += frame->payload;
        left -= frame->payload.size();
      }
    }
  }

  std::unique_ptr<Jail> jail_;
};

TEST(PlainPath, RefusesWhatCouldLeaveTheWorkspace) {
  for (const char* path : {"a", "a/b.c", "a/..b", "...", "ä"})
    EXPECT_TRUE(isPlainPath(path)) << path;
  for (const char* path : {"", "/a", "a//b", "a/", ".", "..", "a/../b", "./a", "a/."})
    EXPECT_FALSE(isPlainPath(path)) << path;
  EXPECT_FALSE(isPlainPath(std::string_view("a\0b", 3)));
  EXPECT_FALSE(isPlainPath(std::string(5000, 'a')));
}

TEST_F(WorkspaceTest, WritesFilesWithTheirModeAndDirectories) {
  jail_->file("deep/er/x.sh", "echo $0", 0755);
  jail_->file("empty", "", 0600);
  jail_->file("big", std::string(200'000, 'b'), 0644);
  const auto run = jail_->shell("stat -c '%n %a %s' deep/er/x.sh empty big; deep/er/x.sh; ./big");
  EXPECT_EQ(run.out, "deep/er/x.sh 755 7\nempty 600 0\nbig 644 200000\ndeep/er/x.sh\n");
}

TEST_F(WorkspaceTest, ReplacesAFile) {
  jail_->file("a", "long content");
  jail_->file("a", "short");
  EXPECT_EQ(jail_->shell("cat a").out, "short");
}

TEST_F(WorkspaceTest, RefusesPathsOutsideAndThroughLinks) {
  ASSERT_EQ(jail_->shell("ln -s /dev out; ln -s /dev/null null; mkfifo fifo; mkdir dir").code, 0U);
  const std::pair<const char*, int> cases[] = {
      {"../x", EINVAL}, {"/x", EINVAL},      {"out/x", ENOTDIR}, {"null", ELOOP},
      {"fifo", ENXIO},  {"null/x", ENOTDIR}, {"dir", EISDIR},
  };
  for (const auto& [path, error] : cases) {
    jail_->file(path, "content");
    EXPECT_NE(fileError(), 0) << path;
  }
  EXPECT_EQ(jail_->run({"echo", "on"}).out, "on\n") << "the rest of each file was passed over";
}

TEST_F(WorkspaceTest, ReportsAFullDiskOnce) {
  jail_->file("big", std::string(20 << 20, 'x'));
  EXPECT_EQ(fileError(), ENOSPC);
  EXPECT_EQ(jail_->run({"echo", "on"}).out, "on\n");
}

TEST_F(WorkspaceTest, CollectsWhatIsNewOrChanged) {
  jail_->file("kept", "same");
  jail_->file("changed", "aaaa");
  jail_->send(ToRunner::kMark, 0);
  ASSERT_EQ(
      jail_->shell("printf bbbb > changed; printf n > new; mkdir -p d/e; printf x > d/e/f").code,
      0U);
  const Collected all = collect({"**"});
  EXPECT_THAT(all.paths, ElementsAre("changed", "d/e/f", "new"));
  EXPECT_THAT(all.contents, ElementsAre("bbbb", "x", "n"));
  EXPECT_EQ(all.left_out, 0U);
}

TEST_F(WorkspaceTest, CollectsNothingWithoutGlobs) {
  ASSERT_EQ(jail_->shell("touch a").code, 0U);
  EXPECT_THAT(collect({}).paths, IsEmpty());
  EXPECT_THAT(collect({"*.png", "b/**"}).paths, IsEmpty());
}

TEST_F(WorkspaceTest, PassesOverWhatIsNoRegularFile) {
  ASSERT_EQ(jail_
                ->shell("mkfifo fifo; ln -s /etc/passwd link; ln -s /usr dir; ln -s /proc/self/exe "
                        "exe; mkdir .git __pycache__ node_modules; touch .git/a __pycache__/b "
                        "node_modules/c .visible plain; chmod 0 plain")
                .code,
            0U);
  const Collected all = collect({"**"});
  EXPECT_THAT(all.paths, ElementsAre(".visible"));
  EXPECT_EQ(all.left_out, 1U) << "plain, which may not be read";
}

TEST_F(WorkspaceTest, KeepsToItsBoundsAndCountsTheRest) {
  ASSERT_EQ(
      jail_->shell("for i in 1 2 3 4 5; do printf 12345 > f$i; done; truncate -s 1T sparse").code,
      0U);
  const Collected few = collect({"**"}, 2);
  EXPECT_THAT(few.paths, ElementsAre("f1", "f2"));
  EXPECT_EQ(few.left_out, 4U);
  const Collected small = collect({"**"}, 64, 11);
  EXPECT_THAT(small.paths, ElementsAre("f1", "f2"));
  EXPECT_EQ(small.left_out, 4U);
}

TEST_F(WorkspaceTest, StopsAtADepth) {
  ASSERT_EQ(
      jail_->shell("i=0; while [ $i -lt 40 ]; do mkdir d; cd d; touch f; i=$((i+1)); done").code,
      0U);
  const Collected all = collect({"**"});
  EXPECT_EQ(all.paths.size(), 32U);
  EXPECT_EQ(all.left_out, 1U);
}

TEST_F(WorkspaceTest, TellsHowFullTheScratchIs) {
  jail_->startProgram(1, {"sh", "-c", "head -c 4194304 /dev/zero > z || yes | head -c 4194304 > z"},
                      wire::kStartKillRest);
  for (;;) {
    const auto frame = jail_->next();
    ASSERT_TRUE(frame) << frame.error().message;
    if (frame->type != FromRunner::kScratch) continue;
    wire::Reader r(frame->payload);
    EXPECT_GE(r.u64(), 4'194'304U);
    EXPECT_EQ(r.u64(), uint64_t{16} << 20);
    EXPECT_GE(r.u64(), 2U);
    EXPECT_EQ(r.u64(), 1000U);
    EXPECT_EQ(r.u64(), 0U) << "it did not fail";
    r.u32();  // may have been looked at
    EXPECT_EQ(r.u32(), 0U) << "it is gone";
    EXPECT_TRUE(r.done());
    return;
  }
}

TEST_F(WorkspaceTest, FilesOfEarlierProgramsAreNotTheProgramsOwn) {
  jail_->startProgram(
      1,
      {"sh", "-c",
       "head -c 70000 /dev/zero > old; touch -d '1 hour ago' old; echo x > new; exit 3"},
      wire::kStartKillRest);
  for (;;) {
    const auto frame = jail_->next();
    ASSERT_TRUE(frame) << frame.error().message;
    if (frame->type != FromRunner::kScratch) continue;
    wire::Reader r(frame->payload);
    for (int i = 0; i < 4; ++i)
      r.u64();
    EXPECT_EQ(r.u64(), 2U) << "of the file written since the start";
    return;
  }
}

TEST_F(WorkspaceTest, TellsTheLargestFileOfAProgramThatFailed) {
  jail_->startProgram(1, {"sh", "-c", "yes | head -c 70000 > large; echo x > small; exit 3"},
                      wire::kStartKillRest);
  for (;;) {
    const auto frame = jail_->next();
    ASSERT_TRUE(frame) << frame.error().message;
    if (frame->type != FromRunner::kScratch) continue;
    wire::Reader r(frame->payload);
    for (int i = 0; i < 4; ++i)
      r.u64();
    EXPECT_EQ(r.u64(), 70'000U);
    r.u32();
    r.u32();
    EXPECT_TRUE(r.done());
    return;
  }
}

}  // namespace
}  // namespace cloister::runner

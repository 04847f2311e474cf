// SPDX-License-Identifier: Apache-2.0
// The part of walls_suite.h about the places where programs may change files.
#pragma once

#include "runtime/walls_fixture.h"

namespace cloister::runtime {

TYPED_TEST_P(WallsSuite, WhatMayNotBeWrittenIsNot) {
  this->walls_.writes = model::Walls::Writes::kNone;
  const std::vector<std::string> changes = {
      "echo x >/workspace/new",
      "echo x >/dev/shm/new",
      "echo x >>given.sh",
      ": >given.sh",
      "rm given.sh",
      "mv given.sh other",
      "mkdir d",
      "ln -s given.sh l",
      "ln given.sh h",
      "mkfifo p",
      "cp given.sh c",
      "truncate -s 0 given.sh",
      "exec 3<>given.sh",
      "exec 3>/proc/self/cwd/new",
      "perl -e 'truncate(\"given.sh\", 0) or exit 1'",
      "perl -e 'sysopen(F, \"given.sh\", 01000) or exit 1; exit -s F ? 1 : 0'",
      "for f in /proc/[0-9]*/fd/* /proc/[0-9]*/cwd; do : >$f/new && exit 0; done; exit 1",
      "for f in /proc/1/fd/*; do test -f $f && : >$f && exit 0; done; exit 1",
      "unshare -rm sh -c 'mount -o remount,bind,rw /workspace; : >/workspace/new'",
  };
  std::vector<std::string> and_temporary = changes;
  and_temporary.emplace_back("echo x >/tmp/new");
  if (!this->harness_.holdsWrites()) {
    EXPECT_EQ(this->run("echo hi\n"), "hi\n");
    EXPECT_THAT(this->weakened_, ::testing::Contains(::testing::HasSubstr("may write")));
    return;
  }
  EXPECT_EQ(this->tries(and_temporary), "end\n");
  EXPECT_EQ(this->run("echo hi | cat >/dev/stdout; echo x >/dev/null; cat given.sh | tail -n 1\n"),
            "hi\necho hi | cat >/dev/stdout; echo x >/dev/null; cat given.sh | tail -n 1\n");
  this->walls_.writes = model::Walls::Writes::kTemporary;
  std::vector<std::string> only_there = changes;
  only_there[1] = "ln /tmp/../workspace/given.sh /tmp/h";
  EXPECT_EQ(this->tries(only_there), "end\n");
  EXPECT_EQ(this->run("echo x >/tmp/new && mkdir /tmp/d /dev/shm/d && mv /tmp/new /tmp/d/ && cat "
                      "/tmp/d/new\n"),
            "x\n");
}

TYPED_TEST_P(WallsSuite, WhatTheNodeBringsIsReadAndNotWritten) {
  this->walls_.writes = model::Walls::Writes::kNone;
  if (!this->harness_.holdsWrites()) GTEST_SKIP() << "this kernel has no Landlock";
  auto session = async::runTask(this->harness_.io(),
                                this->harness_.runtime().provision(this->permit("", "ses_suite")));
  ASSERT_TRUE(session) << session.error().message;
  model::ExecSpec upload;
  upload.run = {{"write", "dir/brought", "384"}, Millis{30'000}};  // 0600
  upload.input = "brought\n";
  upload.for_files = true;
  for (int round = 0; round < 2; ++round) {  // made, and replaced
    this->exec(**session, upload);
    EXPECT_EQ(this->execIn(**session,
                           "cat dir/brought\n"
                           "echo x >>dir/brought && echo REACHED\n"
                           "echo x >dir/new && echo REACHED\n"
                           "rm -f dir/brought && echo REACHED\n"),
              "brought\n");
  }
  model::ExecSpec git = this->specOf(
      "command -v git >/dev/null || exec echo '?? given.sh'\n"
      "git status --porcelain 2>&1\n");
  git.files.push_back({".git/HEAD", "ref: refs/heads/main\n", 0600});
  git.files.push_back({".git/config", "[core]\n\trepositoryformatversion = 0\n", 0644});
  git.files.push_back({".git/objects/info/none", "", 0644});
  git.files.push_back({".git/refs/heads/.none", "", 0644});
  git.files.push_back({".git/info/exclude", "dir\n", 0644});
  EXPECT_EQ(this->exec(**session, git), "?? given.sh\n");
  EXPECT_TRUE(async::runTask(this->harness_.io(), (*session)->teardown()));
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(WallsSuite, AnApprovalOpensItsPathAndNoOther) {
  using model::kMayCreate, model::kMayDelete, model::kMayWrite;
  if (!this->harness_.holdsWrites()) GTEST_SKIP() << "this kernel has no Landlock";
  this->walls_.writes = model::Walls::Writes::kNone;
  this->walls_.writable = {{kMayWrite, false, "/workspace/only-this"},
                           {kMayCreate, false, "/workspace/given.sh"},  // there already
                           {kMayWrite | kMayCreate, true, "/workspace/deep/out"},
                           {kMayWrite | kMayCreate | kMayDelete, true, "/workspace/whole"},
                           {kMayWrite, false, "/tmp/sub/file"}};
  EXPECT_EQ(this->tries({
                "echo x >>given.sh",
                ": >given.sh",
                "echo x >other",
                "rm -f only-this && test ! -e only-this",
                "mv only-this moved",
                "echo x >only-this.new",
                "mkdir d",
                "echo x >deep/new",
                "mv deep gone",
                "echo x >/tmp/new",
                "echo x >/tmp/sub/other",
                "echo x >/dev/shm/new",
                "ln given.sh whole/given.sh && echo x >>whole/given.sh",
                "mv given.sh whole/",
                "ln -s ../given.sh whole/link && echo x >>whole/link",
                "echo x >whole/../new",
            }),
            "end\n");
  EXPECT_EQ(this->run("test ! -s only-this && echo made; echo a >only-this; echo b >>only-this\n"
                      "cat only-this; echo c >/tmp/sub/file; cat /tmp/sub/file\n"
                      "mkdir deep/out/d && echo d >deep/out/d/e && cat deep/out/d/e\n"
                      "echo f >whole/f && mv whole/f whole/g && cat whole/g && rm whole/g\n"
                      "ls -A whole\n"),
            "made\na\nb\nc\nd\nf\n");
  EXPECT_THAT(this->weakened_, ::testing::Contains(::testing::AllOf(
                                   ::testing::HasSubstr("/workspace/only-this (the file is made"),
                                   ::testing::HasSubstr("/workspace/whole/* (the directory is "))));
}

TYPED_TEST_P(WallsSuite, ALinkInTheWayOpensNothing) {
  using model::kMayAll, model::kMayWrite;
  if (!this->harness_.holdsWrites()) GTEST_SKIP() << "this kernel has no Landlock";
  this->walls_.writes = model::Walls::Writes::kNone;
  this->walls_.writable = {{kMayAll, true, "/workspace/mine"},
                           {kMayWrite, false, "/workspace/mine/in/kept"},
                           {kMayAll, true, "/workspace/mine/dir"}};
  auto session = async::runTask(this->harness_.io(),
                                this->harness_.runtime().provision(this->permit("", "ses_suite")));
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(this->execIn(**session, "mkdir made && echo REACHED; ls mine\n"), "dir\nin\n");
  EXPECT_EQ(this->execIn(**session,
                         "rm -r mine/in mine/dir && ln -s .. mine/in && ln -s .. mine/dir\n"
                         "echo x >kept && echo REACHED\necho end\n"),
            "end\n");
  EXPECT_EQ(this->execIn(**session,
                         "echo x >kept && echo REACHED\necho x >mine/in/given.sh && echo REACHED\n"
                         "echo x >mine/dir/new && echo REACHED\nls\n"),
            "given.sh\nmine\n");
  EXPECT_TRUE(async::runTask(this->harness_.io(), (*session)->teardown()));
  EXPECT_EQ(this->harness_.left(), 0U);
}

}  // namespace cloister::runtime

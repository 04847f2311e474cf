// SPDX-License-Identifier: Apache-2.0
// The conformance suite of runtimes that enforce the confinement rules of agents (model/walls.h),
// for GoogleTest, with the harness of runtime_suite.h and
//   bool holdsWrites();   whether rules on writing are enforced there; a process sandbox needs
//                         Landlock for these rules
//   bool manyFiles();     whether its image has more files than one pattern's search visits
// The programs are shell scripts that try to break a rule; a successful script prints REACHED.
#pragma once

#include "runtime/walls_fixture.h"
#include "runtime/walls_writes_suite.h"

namespace cloister::runtime {

TYPED_TEST_P(WallsSuite, WhatIsHiddenCannotBeOpened) {
  this->walls_.hidden = {"/etc/hosts",         "/etc/ssl/*", "/etc/p*d",
                         "/usr/share/perl*/*", "/not/there", "/not/*/there"};
  const std::string said = this->tries({
      "cat /etc/hosts",
      "cat /etc/../etc//hosts",
      "cat /proc/self/root/etc/hosts",
      "cd /etc && cat hosts",
      "ln -s /etc/hosts l && cat l",
      "ln /etc/hosts h && cat h",
      "cp /etc/hosts c",
      "exec 3</etc/hosts",
      "test -s /etc/hosts",
      "chmod 644 /etc/hosts",
      "mv /etc/hosts /workspace/",
      "umount /etc/hosts",
      "ls /etc/ssl",
      "cat /etc/ssl/openssl.cnf",
      "cat /etc/passwd",
      "ls /usr/share/perl5/",
      "test -e /not/there",
  });
  EXPECT_EQ(said, "end\n");
  EXPECT_EQ(this->run("cat /etc/group | head -n 1; ls -d /etc/ssl /usr/share/perl5\n"),
            "root:x:0:\n/etc/ssl\n/usr/share/perl5\n");
}

TYPED_TEST_P(WallsSuite, AForbiddenProgramCanNeitherBeRunNorRead) {
  this->walls_.without = {"dd", "awk", "perl", "mkfs*", "no-such-program"};
  const std::string said = this->tries({
      "dd if=/dev/null of=/dev/null",
      "/usr/bin/dd --version",
      "/bin/dd --version",
      "/lib64/ld-linux-x86-64.so.2 /usr/bin/dd --version",
      "cp /usr/bin/dd d && chmod +x d && ./d --version",
      "cat /usr/bin/dd >d && test -s d",
      "ln /usr/bin/dd e && ./e --version",
      "ln -s /usr/bin/dd f && ./f --version",
      "exec 3</usr/bin/dd",
      "/proc/self/root/usr/bin/dd --version",
      "mkdir -p u && mv /usr/bin u/",
      "umount /usr/bin/dd",
      "rm -f /usr/bin/dd && test ! -e /usr/bin/dd",
      // By the other names of the same program.
      "awk 'BEGIN{exit 0}'",
      "$(readlink -f /etc/alternatives/awk) 'BEGIN{exit 0}'",
      "perl -e 1",
      "$(ls /usr/bin/perl5.*.0) -e 1",
      "ls -l /usr/sbin/mke2fs | grep -q . && mke2fs -V",
  });
  EXPECT_EQ(said, "end\n");
  EXPECT_EQ(this->run("ls -d /usr/bin/dd; head -c 3 /bin/sh | tail -c 2\n"), "/usr/bin/dd\nEL");
}

TYPED_TEST_P(WallsSuite, OnlyListedProgramsAreThere) {
  this->walls_.only = {"sh", "ls", "cat", "awk", "chmod", "no-such-program"};
  this->walls_.runs_own = false;
  EXPECT_EQ(this->run("awk 'BEGIN{print 6 * 7}'; cat /etc/hostname; ls / >/dev/null && echo ls\n"),
            "42\ncloister\nls\n");
  const std::string said = this->tries({
      "id",
      "python3 -c 1",
      "/usr/bin/id",
      "test -e /usr/bin/id",
      "/lib64/ld-linux-x86-64.so.2 /usr/bin/id",
      "cat /usr/bin/ls >own && chmod +x own && ./own /",
      "cat /usr/bin/ls >/tmp/own && chmod +x /tmp/own && /tmp/own /",
      "cat /usr/bin/ls >/dev/shm/own && chmod +x /dev/shm/own && /dev/shm/own /",
      "./given.sh",
      ": >/usr/bin/new",
      "test -w /usr/bin && test ! -e /usr/bin/umount && : >/usr/bin/x",
  });
  EXPECT_EQ(said, "end\n");
  const std::string there = this->run("cd /usr/bin; echo *\n");
  EXPECT_THAT(there, ::testing::HasSubstr("cat"));
  EXPECT_THAT(there, ::testing::Not(::testing::HasSubstr("python")));
  EXPECT_LT(there.size(), 80U) << there;
}

TYPED_TEST_P(WallsSuite, AForbiddenProgramIsNotAmongThoseListed) {
  this->walls_.only = {"sh", "cat", "ls"};
  this->walls_.without = {"ls"};
  EXPECT_EQ(this->tries({"ls /", "cat /usr/bin/ls"}), "end\n");
}

TYPED_TEST_P(WallsSuite, WallsAreOfOneSandboxAlone) {
  const std::string look = "dd --version >/dev/null 2>&1 && echo there\n";
  for (int round = 0; round < 3; ++round) {  // made, and then out of the pool
    this->walls_ = {};
    EXPECT_EQ(this->run(look), "there\n");
    this->walls_.without = {"dd"};
    EXPECT_EQ(this->run(look), "");
    this->walls_.without = {"ls"};
    EXPECT_EQ(this->run(look), "there\n");
  }
}

TYPED_TEST_P(WallsSuite, ASessionsProgramsAreBehindThem) {
  this->walls_.without = {"dd"};
  this->walls_.writes = model::Walls::Writes::kNone;
  auto session = async::runTask(this->harness_.io(),
                                this->harness_.runtime().provision(this->permit("", "ses_suite")));
  ASSERT_TRUE(session) << session.error().message;
  std::string said;
  for (int round = 0; round < 2; ++round) {
    said += this->execIn(**session,
                         "dd --version >/dev/null 2>&1 && echo REACHED\n"
                         "(: >new) 2>/dev/null && echo WROTE\n"
                         "echo end\n");
  }
  EXPECT_EQ(said, this->harness_.holdsWrites() ? "end\nend\n" : "WROTE\nend\nWROTE\nend\n");
  EXPECT_TRUE(async::runTask(this->harness_.io(), (*session)->teardown()));
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(WallsSuite, WhatCannotBeLookedThroughIsRefused) {
  if (!this->harness_.manyFiles()) GTEST_SKIP() << "its image has too few files for that";
  this->walls_.hidden = {"/usr/*nothing*is*called*so"};
  const auto sandbox = async::runTask(this->harness_.io(),
                                      this->harness_.runtime().provision(this->permit("00", "")));
  ASSERT_FALSE(sandbox);
  EXPECT_THAT(sandbox.error().message, ::testing::HasSubstr("name a directory further down"));
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(WallsSuite, WhatIsShownIsAloneInWhatIsHidden) {
  this->walls_.hidden = {"/etc/*", "/etc/ssl/private"};
  for (const char* path : {"/etc/hosts", "/etc/ssl", "/etc/ssl/openssl.cnf", "/etc/no/ne"})
    this->walls_.shown.push_back({"/etc/*", path});
  EXPECT_EQ(this->tries({"ls /etc", "cat /etc/passwd", "ls /etc/ssl/private", "touch /etc/new"}),
            "end\n");
  EXPECT_EQ(this->run("test -s /etc/hosts && echo hosts; ls -d /etc/ssl/certs\n"),
            "hosts\n/etc/ssl/certs\n");
}

TYPED_TEST_P(WallsSuite, ThePlanShowsThem) {
  this->walls_.hidden = {"/etc/hosts"};
  this->walls_.only = {"sh"};
  this->walls_.runs_own = false;
  const auto plan =
      async::runTask(this->harness_.io(), this->harness_.runtime().plan(this->permit("00", "")));
  ASSERT_TRUE(plan) << plan.error().message;
  const auto& walls = plan->at("walls").as_object();
  EXPECT_EQ(walls.at("hidden").as_array().at(0).as_string(), "/etc/hosts");
  EXPECT_EQ(walls.at("programs_only").as_array().at(0).as_string(), "sh");
  EXPECT_FALSE(walls.at("executes_own_files").as_bool());
  EXPECT_EQ(walls.at("writes").as_string(), "all");
}

REGISTER_TYPED_TEST_SUITE_P(WallsSuite, WhatIsHiddenCannotBeOpened,
                            AForbiddenProgramCanNeitherBeRunNorRead, OnlyListedProgramsAreThere,
                            AForbiddenProgramIsNotAmongThoseListed, WhatMayNotBeWrittenIsNot,
                            WhatTheNodeBringsIsReadAndNotWritten, AnApprovalOpensItsPathAndNoOther,
                            ALinkInTheWayOpensNothing, WhatIsShownIsAloneInWhatIsHidden,
                            WallsAreOfOneSandboxAlone, ASessionsProgramsAreBehindThem,
                            WhatCannotBeLookedThroughIsRefused, ThePlanShowsThem);

}  // namespace cloister::runtime

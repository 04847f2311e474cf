// SPDX-License-Identifier: Apache-2.0
// The conformance suite of runtimes that hold the walls of agents (model/walls.h), for GoogleTest,
// with the harness of runtime_suite.h and
//   bool holdsWrites();   whether its kernel has Landlock, inside
//   bool manyFiles();     whether its image has more than are looked through for one pattern
// The programs are shell scripts that try; whatever gets through says REACHED.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "runtime/run_task.h"
#include "runtime/runtime.h"
#include "runtime/suite_programs.h"
#include "wire/node.h"

namespace cloister::runtime {

template <class Harness>
class WallsSuite : public SuiteOf<Harness> {
 protected:
  model::SignedPermit permit(const std::string& spec_sha256, const std::string& session) {
    const int64_t now = base::wallMicros();
    model::PermitFields fields;
    fields.id = base::newId("permit");
    if (!spec_sha256.empty()) fields.execution_id = base::newId("exec");
    fields.session_id = session;
    fields.tenant = "suite";
    fields.policy_id = "suite";
    fields.runtime = harness_.runtimeName();
    fields.image = "host";
    fields.network_tier = "none";
    model::settle(fields.limits);
    const bool program = !spec_sha256.empty() && !session.empty();
    if (!program) fields.walls = walls_;  // a program has those of the sandbox that it is in
    fields.spec_sha256 = spec_sha256;
    fields.not_before = now;
    fields.expires = now + 60'000'000;
    return harness_.sign(fields);
  }

  static model::ExecSpec specOf(const std::string& script) {
    model::ExecSpec spec;
    spec.files = {{"given.sh", script, 0755}};
    spec.run = {{"/bin/sh", "given.sh"}, Millis{30'000}};
    spec.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME=/workspace"};
    return spec;
  }

  // What the script says, on either stream.
  std::string run(const std::string& script) {
    const model::ExecSpec spec = specOf(script);
    const auto signed_permit = permit(base::sha256Hex(wire::encodeExecSpec(spec)), "");
    auto sandbox = runTask(harness_.io(), harness_.runtime().provision(signed_permit));
    if (!sandbox) {
      ADD_FAILURE() << sandbox.error().message;
      return {};
    }
    weakened_ = (*sandbox)->info().weakened;
    Collector seen(harness_.io().get_executor());
    const auto outcome = runTask(harness_.io(), (*sandbox)->exec(spec, seen));
    EXPECT_TRUE(outcome) << outcome.error().message;
    const auto done = runTask(harness_.io(), (*sandbox)->teardown());
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_EQ(harness_.left(), 0U);
    return seen.out + seen.err;
  }

  // Every line of it has to fail.
  std::string tries(const std::vector<std::string>& lines) {
    std::string script;
    for (const std::string& line : lines)
      script += "( " + line + " ) 2>/dev/null && echo 'REACHED: " + quoted(line) + "'\n";
    return run(script + "echo end\n");
  }

  static std::string quoted(std::string text) {
    std::erase(text, '\'');
    return text;
  }

  using SuiteOf<Harness>::harness_;
  model::Walls walls_;
  std::vector<std::string> weakened_;
};

TYPED_TEST_SUITE_P(WallsSuite);

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
  auto session = runTask(this->harness_.io(),
                         this->harness_.runtime().provision(this->permit("", "ses_suite")));
  ASSERT_TRUE(session) << session.error().message;
  std::string said;
  for (int round = 0; round < 2; ++round) {
    model::ExecSpec spec = this->specOf(
        "dd --version >/dev/null 2>&1 && echo REACHED\n"
        "(: >new) 2>/dev/null && echo WROTE\n"
        "echo end\n");
    spec.files[0].path = "given" + std::to_string(round) + ".sh";
    spec.run.argv[1] = spec.files[0].path;
    const auto signed_permit =
        this->permit(base::sha256Hex(wire::encodeExecSpec(spec)), "ses_suite");
    auto exec = runTask(this->harness_.io(), (*session)->open(signed_permit, spec));
    ASSERT_TRUE(exec) << exec.error().message;
    Collector seen(this->harness_.io().get_executor());
    EXPECT_TRUE(runTask(this->harness_.io(), (*exec)->run(seen)));
    said += seen.out;
  }
  EXPECT_EQ(said, this->harness_.holdsWrites() ? "end\nend\n" : "WROTE\nend\nWROTE\nend\n");
  EXPECT_TRUE(runTask(this->harness_.io(), (*session)->teardown()));
  EXPECT_EQ(this->harness_.left(), 0U);
}

TYPED_TEST_P(WallsSuite, WhatCannotBeLookedThroughIsRefused) {
  if (!this->harness_.manyFiles()) GTEST_SKIP() << "its image has too few files for that";
  this->walls_.hidden = {"/usr/*nothing*is*called*so"};
  const auto sandbox =
      runTask(this->harness_.io(), this->harness_.runtime().provision(this->permit("00", "")));
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
      runTask(this->harness_.io(), this->harness_.runtime().plan(this->permit("00", "")));
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
                            WhatIsShownIsAloneInWhatIsHidden, WallsAreOfOneSandboxAlone,
                            ASessionsProgramsAreBehindThem, WhatCannotBeLookedThroughIsRefused,
                            ThePlanShowsThem);

}  // namespace cloister::runtime

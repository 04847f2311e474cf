// SPDX-License-Identifier: Apache-2.0
// The common parts of walls_suite.h: permits with confinement rules, and scripts that try to break
// the rules.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
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
    if (!program) fields.walls = walls_;  // a program gets the confinement rules of its sandbox
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

  // The script's output on either stream.
  std::string run(const std::string& script) {
    const model::ExecSpec spec = specOf(script);
    const auto signed_permit = permit(base::sha256Hex(wire::encodeExecSpec(spec)), "");
    auto sandbox = async::runTask(harness_.io(), harness_.runtime().provision(signed_permit));
    if (!sandbox) {
      ADD_FAILURE() << sandbox.error().message;
      return {};
    }
    weakened_ = (*sandbox)->info().weakened;
    Collector seen(harness_.io().get_executor());
    const auto outcome = async::runTask(harness_.io(), (*sandbox)->exec(spec, seen));
    EXPECT_TRUE(outcome) << outcome.error().message;
    const auto done = async::runTask(harness_.io(), (*sandbox)->teardown());
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_EQ(harness_.left(), 0U);
    return seen.out + seen.err;
  }

  // The same of a program in a session, whose file takes the place of the last one's.
  std::string execIn(Sandbox& session, const std::string& script) {
    return exec(session, specOf(script));
  }
  std::string exec(Sandbox& session, const model::ExecSpec& spec) {
    const auto signed_permit = permit(base::sha256Hex(wire::encodeExecSpec(spec)), "ses_suite");
    auto opened = async::runTask(harness_.io(), session.open(signed_permit, spec));
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return {};
    }
    Collector seen(harness_.io().get_executor());
    const auto outcome = async::runTask(harness_.io(), (*opened)->run(seen));
    EXPECT_TRUE(outcome) << outcome.error().message;
    return seen.out;
  }

  // Each line must fail.
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

}  // namespace cloister::runtime

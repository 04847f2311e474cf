// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/process_runtime.h"

#include <gtest/gtest.h>

#include "runtime/process/testbed.h"

namespace cloister::runtime {
namespace {

using namespace testbed;
using model::End;

class ProcessRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!host()) GTEST_SKIP() << host().error().message;
    runtime_ = makeProcessRuntime(io_.get_executor(), *host());
  }

  Task<Result<model::Outcome>> runOnce(const model::ExecSpec& spec, model::Limits limits,
                                       Recorder& seen) {
    auto sandbox = CO_TRY(co_await runtime_->provision(permit(limits)));
    auto outcome = co_await sandbox->exec(spec, seen);
    CO_TRY(co_await sandbox->teardown());
    co_return outcome;
  }

  Result<model::Outcome> run(const model::ExecSpec& spec, model::Limits limits = {}) {
    seen_ = {};
    return await(io_, runOnce(spec, limits, seen_));
  }

  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
  Recorder seen_;
};

TEST_F(ProcessRuntimeTest, RunsTrue) {
  const auto outcome = run(command({"/bin/true"}));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->end, End::kExited) << outcome->message;
  EXPECT_EQ(outcome->exit_code, 0);
}

TEST_F(ProcessRuntimeTest, PassesStdinToStdout) {
  const auto outcome = run(shell("cat; echo err >&2; exit 3", "hi\n"));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->end, End::kExited) << outcome->message;
  EXPECT_EQ(outcome->exit_code, 3);
  EXPECT_EQ(seen_.out, "hi\n");
  EXPECT_EQ(seen_.err, "err\n");
}

}  // namespace
}  // namespace cloister::runtime

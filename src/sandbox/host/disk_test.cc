// SPDX-License-Identifier: Apache-2.0
// Sandboxes whose workspace is on disk.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/host/host.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {
namespace {

using namespace testbed;
using model::End;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A disk larger than the small memory.
model::Limits onDisk() {
  model::Limits limits;
  limits.memory_bytes = 128 * kMiB;
  limits.disk_bytes = 1088 * kMiB;
  return limits;
}

class DiskTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!host()) GTEST_SKIP() << host().error().message;
    const model::Finding& found = (*host())->disks()->finding();
    if (found.state != model::Finding::State::kOk) GTEST_SKIP() << found.detail;
    runtime_ = makeProcessRuntime(io_.get_executor(), *host());
  }

  // A refusal for lack of room reports the usage of the disks.
  std::string inUse() {
    const auto refused = async::runTask(
        io_, (*host())->disks()->make(io_.get_executor(), {.bytes = UINT64_MAX}, {}));
    return refused ? "it was made" : refused.error().message;
  }

  void TearDown() override {
    if (!runtime_) return;
    EXPECT_EQ(left(), 0U);
    EXPECT_THAT(inUse(), HasSubstr("0 MiB of "));
  }

  Task<Result<model::Outcome>> runOnce(const model::ExecSpec& spec, model::Limits limits) {
    auto sandbox = CO_TRY(co_await runtime_->provision(permit(limits)));
    weakened_ = sandbox->info().weakened;
    auto outcome = co_await sandbox->exec(spec, seen_);
    CO_TRY(co_await sandbox->teardown());
    co_return outcome;
  }

  model::Outcome run(const std::string& script, model::Limits limits = onDisk()) {
    seen_.out.clear();
    auto outcome = async::runTask(io_, runOnce(shell("{ " + script + "; } 2>&1"), limits));
    if (outcome) return *std::move(outcome);
    ADD_FAILURE() << outcome.error().message;
    return {};
  }

  static const model::LimitHit* hit(const model::Outcome& outcome, std::string_view limit) {
    const auto found = std::ranges::find(outcome.limits, limit, &model::LimitHit::limit);
    return found == outcome.limits.end() ? nullptr : &*found;
  }

  boost::asio::io_context io_{1};
  std::unique_ptr<Runtime> runtime_;
  Recorder seen_;
  std::vector<std::string> weakened_;
};

TEST_F(DiskTest, HoldsMoreThanItsMemory) {
  const auto outcome =
      run("head -c 200M /dev/zero >big; stat -c %s big; id -u; touch /tmp/x /dev/shm/y");
  EXPECT_EQ(outcome.end, End::kExited) << outcome.message;
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(seen_.out, "209715200\n1000\n");
  EXPECT_TRUE(outcome.limits.empty());
  EXPECT_THAT(weakened_, testing::Contains(kWeakerOnDisk));
}

TEST_F(DiskTest, StaysInMemoryUnlessThereIsNeed) {
  for (model::Limits limits : {model::Limits{}, onDisk()}) {
    if (limits.disk_bytes > 1024 * kMiB) limits.memory_bytes = 2048 * kMiB;
    run("stat -f -c %T /workspace", limits);
    EXPECT_EQ(seen_.out, "tmpfs\n");
    EXPECT_THAT(weakened_, Not(testing::Contains(kWeakerOnDisk)));
  }
}

TEST_F(DiskTest, NamesTheLimitWhenItIsFull) {
  const auto outcome = run("fallocate -l 1000M a; head -c 200M /dev/zero >b");
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_THAT(seen_.out, HasSubstr("No space left on device"));
  const auto* full = hit(outcome, model::limit_name::kDisk);
  ASSERT_NE(full, nullptr);
  EXPECT_LE(full->value, onDisk().disk_bytes);
  EXPECT_GE(full->value, onDisk().disk_bytes / 100 * 97);
}

TEST_F(DiskTest, NamesTheLimitWhenThereAreTooManyFiles) {
  model::Limits limits = onDisk();
  limits.inodes = 300;
  const auto outcome = run("i=0; while touch f$i; do i=$((i+1)); done; echo $i", limits);
  EXPECT_NE(hit(outcome, model::limit_name::kInodes), nullptr);
  const size_t line = seen_.out.rfind('\n', seen_.out.size() - 2);
  const int made = std::stoi(seen_.out.substr(line + 1));
  EXPECT_LT(made, 300);
  EXPECT_GT(made, 250);
}

TEST_F(DiskTest, ItsMountsAreWhatTheyAreInMemory) {
  run("grep -E ' /(workspace|tmp|dev/shm) ' /proc/self/mountinfo | cut -d' ' -f5,6");
  for (const char* where : {"/workspace", "/tmp", "/dev/shm"})
    EXPECT_THAT(seen_.out, HasSubstr(std::string(where) + " rw,nosuid,nodev"));
  // The surroundings of the encrypted directory cannot be reached.
  run("ls -A /workspace /workspace/.. | grep -E 'lost.found|scratch|surplus' || echo hidden");
  EXPECT_EQ(seen_.out, "hidden\n");
}

TEST_F(DiskTest, KeepsNothingWhereItWouldNotBeEncrypted) {
  const auto outcome =
      run("python3 -c 'import os; os.setxattr(\".\", \"user.x\", b\"y\")'; "
          "python3 -c 'import os; print(os.listxattr(\".\"))'");
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_THAT(seen_.out, HasSubstr("Operation not supported"));
  EXPECT_THAT(seen_.out, HasSubstr("[]"));
}

TEST_F(DiskTest, TheNodeHasOnlySoMuch) {
  model::Limits limits = onDisk();
  limits.disk_bytes = 1536 * kMiB;
  const auto both = [&]() -> Task<Result<>> {
    const auto one = CO_TRY(co_await runtime_->provision(permit(limits)));
    const auto another = co_await runtime_->provision(permit(onDisk()));
    EXPECT_FALSE(another);
    if (!another) {
      EXPECT_EQ(another.error().code, Code::kQuota);
      EXPECT_THAT(another.error().message, HasSubstr("workspace.disk.max_mb"));
    }
    CO_TRY(co_await one->teardown());
    const auto then = CO_TRY(co_await runtime_->provision(permit(onDisk())));
    co_return co_await then->teardown();
  };
  const auto done = async::runTask(io_, both());
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(DiskTest, APlanShowsIt) {
  const auto plan = async::runTask(io_, runtime_->plan(permit(onDisk())));
  ASSERT_TRUE(plan) << plan.error().message;
  const std::string text = base::toJson(*plan);
  EXPECT_THAT(text, HasSubstr(R"("disk":{"bytes":1140850688,"inodes":65536})"));
  EXPECT_THAT(text, HasSubstr(R"("op":"attach","target":"/workspace","type":"ext4")"));
  EXPECT_THAT(text, HasSubstr("extended attributes"));
}

TEST(DiskHost, SaysWhyItHasNone) {
  ProcessConfig without = config();
  without.disk.max_bytes = 0;
  const auto lacking = Disks::open(without.disk);
  EXPECT_EQ(lacking->finding().state, model::Finding::State::kMissing);
  EXPECT_EQ(lacking->finding().remedy, "set workspace.disk.max_mb");
  EXPECT_TRUE(lacking->isFor(onDisk())) << "it is refused, not put in memory";
}

}  // namespace
}  // namespace cloister::runtime

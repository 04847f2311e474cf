// SPDX-License-Identifier: Apache-2.0
// Machines that begin from a template (sandbox/pool/template.h), emulated: the conformance suite of
// runtimes, all of whose usual sandboxes begin from a template, and tests of templates alone.
// Skipped like microvm_suite_test.cc.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <sstream>

#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/id.h"
#include "linux/message.h"
#include "runtime/runtime_suite.h"
#include "runtime/session_suite.h"
#include "sandbox/guest_harness.h"
#include "sandbox/microvm/emulated_testing.h"
#include "sandbox/microvm/image.h"
#include "sandbox/microvm/microvm.h"
#include "sandbox/pool/pool.h"
#include "sandbox/pool/template.h"

namespace cloister::runtime {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

MicrovmConfig configured(uint32_t templates) {
  MicrovmConfig config = emulatedMachines();
  config.ready = 1;
  config.templates = templates;
  return config;
}

// A pool over a host and a guest that prepares a ready sandbox of each requested kind.
class Machines {
 public:
  Machines(boost::asio::io_context& io, std::shared_ptr<ProcessHost> host,
           std::shared_ptr<const Guest> guest)
      : io_(io),
        pool_(std::make_shared<Pool>(
            io.get_executor(), host,
            std::make_shared<PresentQueue>(io.get_executor(), host->root(), Millis{45'000}),
            std::move(guest))) {}

  Pool& pool() { return *pool_; }

  std::shared_ptr<Live> claim(const model::Limits& limits) {
    auto live = async::runTask(io_, pool_->claim(limits, {}));
    EXPECT_TRUE(live) << live.error().message;
    return live ? *live : nullptr;
  }
  void bury(const std::shared_ptr<Live>& live) {
    if (live) EXPECT_TRUE(async::runTask(io_, live->bury()));
  }
  // Boots a machine and prepares a ready one; `meanwhile` runs during the preparation.
  void fill(const model::Limits& limits, const std::function<void()>& meanwhile = [] {}) {
    bury(claim(limits));
    pool_->refill();
    async::runTask(io_, wait(meanwhile));
  }
  // Claims the ready machine.
  void empty(const model::Limits& limits) { bury(claim(limits)); }

 private:
  Task<bool> wait(const std::function<void()>& meanwhile) {
    boost::asio::steady_timer pause(io_);
    while (pool_->refilling()) {
      pause.expires_after(Millis{20});
      co_await pause.async_wait(boost::asio::use_awaitable);
      meanwhile();
    }
    co_return true;
  }

  boost::asio::io_context& io_;
  std::shared_ptr<Pool> pool_;
};

struct TemplateKind {
  [[maybe_unused]] static constexpr bool kManyFiles = false;
  static GuestFound find() { return findMicrovm(configured(8)); }
  static std::string lacks(Program /*program*/) { return ""; }
  static void configure(ProcessConfig& config) {
    config.ready_floor = 1;
    config.pressure = {.spare_memory = 0, .cpu_pressure = 50, .cpus = 1, .proc = proc()};
    runnable(0);
  }
  // Afterwards sandboxes with the usual limits resume from a template. Nothing more is made ahead,
  // since a test would count such machines as left over.
  static void prepare(const std::shared_ptr<ProcessHost>& host) {
    boost::asio::io_context io(1);
    Machines machines(io, host, host->config().guests.front());
    model::Limits limits;
    model::settle(limits);
    machines.fill(limits);
    machines.empty(limits);
    EXPECT_EQ(host->config().guests.front()->templates()->count(), 1U);
    runnable(99);
  }

 private:
  static const std::string& proc() {
    static const std::string directory = "/tmp/cloister-test-" + base::randomHex(8);
    return directory;
  }
  static void runnable(int count) {
    ASSERT_TRUE(base::makeDirs(proc()));
    ASSERT_TRUE(base::writeFileAtomic(proc() + "/loadavg",
                                      "1.0 1.0 1.0 " + std::to_string(count) + "/98 7\n", 0644));
    if (count > 0) std::atexit([] { std::filesystem::remove_all(proc()); });
  }
};
using TemplateHarness = GuestHarness<TemplateKind>;

INSTANTIATE_TYPED_TEST_SUITE_P(MicrovmTemplate, RuntimeSuite, TemplateHarness);
INSTANTIATE_TYPED_TEST_SUITE_P(MicrovmTemplate, SessionSuite, TemplateHarness);

class MicrovmTemplates : public testing::Test {
 protected:
  void SetUp() override { open(2); }

  void open(uint32_t templates) {
    if (const std::string why = TemplateHarness::absent(); !why.empty()) GTEST_SKIP() << why;
    GuestFound found = findMicrovm(configured(templates));
    ASSERT_NE(found.guest, nullptr) << found.finding.detail;
    guest_ = found.guest;
    ProcessConfig config = testbed::config();
    config.cgroup_parent = "cloister-test-template";
    config.ready_floor = 1;
    config.guests = {guest_};
    auto host = startProcessHost(config);
    ASSERT_TRUE(host) << host.error().message;
    host_ = *std::move(host);
    machines_.emplace(io_, host_, guest_);
    model::settle(limits_);
  }

  Templates& templates() { return *guest_->templates(); }
  Templates::Shape shape() {
    SandboxSpec spec = host_->planFor(limits_, 0, guest_.get()).spec;
    spec.ids = {};
    return {guest_.get(), host_->root()->spawner(), spec};
  }

  // The program's output in a separate machine.
  std::string run(const std::vector<std::string>& argv) {
    const auto runtime = makeProcessRuntime(io_.get_executor(), host_);
    model::PermitFields fields = *wire::decodePermit(testbed::permit(limits_).encoded);
    fields.runtime = "microvm";
    auto sandbox = async::runTask(io_, runtime->provision({wire::encodePermit(fields), {}}));
    EXPECT_TRUE(sandbox) << sandbox.error().message;
    if (!sandbox) return "";
    weakened_ = (*sandbox)->info().weakened;
    testbed::Recorder seen;
    const auto outcome = async::runTask(io_, (*sandbox)->exec(testbed::command(argv), seen));
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (outcome) outcome_ = *outcome;
    EXPECT_TRUE(async::runTask(io_, (*sandbox)->teardown()));
    return seen.out + seen.err;
  }

  boost::asio::io_context io_{1};
  std::shared_ptr<const Guest> guest_;
  std::shared_ptr<ProcessHost> host_;
  std::optional<Machines> machines_;
  model::Limits limits_;
  std::vector<std::string> weakened_;
  model::Outcome outcome_;
};

constexpr char kUnique[] = R"(
import os, random, secrets, uuid, hashlib
print(os.urandom(16).hex(), random.random(), secrets.token_hex(8), uuid.uuid4(), hash('a'), sep='\n')
print(open('/proc/sys/kernel/random/uuid').read(), end='')
)";

TEST_F(MicrovmTemplates, OnesThatBeginAlikeDrawOtherNumbers) {
  machines_->fill(limits_);
  machines_->empty(limits_);
  ASSERT_EQ(templates().count(), 1U);
  std::set<std::string> all;
  for (int i = 0; i < 2; ++i) {
    std::istringstream lines(
        run({"/usr/bin/python3", "-c", kUnique}) +
        run({"/bin/bash", "-c",
             "echo $RANDOM$RANDOM$RANDOM; echo $SRANDOM; cat /proc/sys/kernel/random/boot_id; "
             "test ! -x /usr/bin/node || node -e 'console.log(Math.random() + \"\\n\" + "
             "require(\"crypto\").randomBytes(8).toString(\"hex\"))'"}));
    EXPECT_THAT(weakened_, Contains(kWeakerFromTemplate));
    for (std::string line; std::getline(lines, line);)
      all.insert(line);
  }
  EXPECT_EQ(all.size(), 2U * (6 + 3 + 2)) << testing::PrintToString(all);
}

TEST_F(MicrovmTemplates, TheClockIsRightAndNobodyPaysForTheLifeOfTheTemplate) {
  machines_->fill(limits_);
  machines_->empty(limits_);
  ::sleep(2);
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  const std::string said = run({"/bin/date", "+%s"});
  const auto after = std::chrono::system_clock::now().time_since_epoch();
  const std::chrono::seconds told(std::atoll(said.c_str()));
  EXPECT_GE(told + std::chrono::seconds(1), before);
  EXPECT_LE(told, after);
  EXPECT_LE(outcome_.usage.cpu_ms, outcome_.usage.wall_ms * 4 + 1'000);
  EXPECT_LT(outcome_.usage.max_rss_bytes, uint64_t{32} << 20);
}

TEST_F(MicrovmTemplates, StayAsTheyAreWhateverRunsInWhatBeganAsThem) {
  machines_->fill(limits_);
  machines_->empty(limits_);
  const auto kept = templates().find(shape());
  ASSERT_NE(kept, nullptr);
  const std::string memory = microvm::digestOf(kept->memory()).value_or("");
  const std::string state = microvm::digestOf(kept->state()).value_or("");
  const std::string said =
      run({"/bin/sh", "-c", "head -c 30000000 /dev/urandom > x; cat x x > y; tail -c 1 y | wc -c"});
  EXPECT_EQ(said, "1\n");
  EXPECT_THAT(weakened_, Contains(kWeakerFromTemplate));
  EXPECT_EQ(microvm::digestOf(kept->memory()).value_or("x"), memory);
  EXPECT_EQ(microvm::digestOf(kept->state()).value_or("x"), state);
  EXPECT_EQ(run({"/bin/ls", "-A", "/workspace"}), "");
}

TEST_F(MicrovmTemplates, OneThatNothingBeginsAsIsGivenUpAndTheMachineBoots) {
  const auto broken = *Template::make(guest_->machineBytes(shape().spec));
  ASSERT_EQ(::pwrite(broken->state().get(), "no state", 8, 0), 8);
  ASSERT_TRUE(broken->seal());
  templates().keep(shape(), broken);
  EXPECT_EQ(run({"/bin/echo", "here"}), "here\n");
  EXPECT_THAT(weakened_, Not(Contains(kWeakerFromTemplate)));
  EXPECT_EQ(templates().count(), 0U);
}

TEST_F(MicrovmTemplates, AMakerThatIsKilledLeavesNothing) {
  bool killed = false;
  machines_->fill(limits_, [&] {
    for (const pid_t spawner : testbed::childrenOf(::getpid())) {
      for (const pid_t machine : testbed::childrenOf(spawner)) {
        if (!std::exchange(killed, true)) ::kill(machine, SIGKILL);
      }
    }
  });
  EXPECT_TRUE(killed);
  EXPECT_EQ(templates().count(), 0U);
  const auto live = machines_->claim(limits_);
  ASSERT_NE(live, nullptr);
  EXPECT_FALSE(live->resumed());
  machines_->bury(live);
  EXPECT_EQ(testbed::slotsInUse(*host_) + host_->dying(), 0U);
}

TEST_F(MicrovmTemplates, GoWithTheirImageAndWithThoseThatWereKilled) {
  machines_->fill(limits_);
  const auto live = machines_->claim(limits_);
  ASSERT_NE(live, nullptr);
  EXPECT_TRUE(live->resumed());
  live->kill();
  machines_->bury(live);
  EXPECT_EQ(templates().count(), 1U);
  machines_->pool().drop();
  EXPECT_EQ(templates().count(), 0U);
  EXPECT_EQ(testbed::slotsInUse(*host_) + host_->dying(), 0U);
}

TEST_F(MicrovmTemplates, ArePlannedAndNoneWhereNoneAreWanted) {
  model::PermitFields fields = *wire::decodePermit(testbed::permit(limits_).encoded);
  fields.runtime = "microvm";
  const auto runtime = makeProcessRuntime(io_.get_executor(), host_);
  const auto plan = async::runTask(io_, runtime->plan({wire::encodePermit(fields), {}}));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->at("microvm").at("templates").to_number<int>(), 2);
  EXPECT_EQ(findMicrovm(configured(0)).guest->templates(), nullptr);
}

}  // namespace
}  // namespace cloister::runtime

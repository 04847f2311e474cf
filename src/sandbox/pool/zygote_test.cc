// SPDX-License-Identifier: Apache-2.0
// Sandboxes made with copies of a real interpreter.
#include "sandbox/pool/zygote.h"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "sandbox/pool/pool_fixture.h"

namespace cloister::runtime {
namespace {

// A real zygote, prepared by the script `preparation`.
class ZygoteTest : public PoolTest {
 protected:
  void SetUp() override { open(base::shareDir() + "/languages/zygote/python.py"); }

  void open(const std::string& preparation) {
    ASSERT_EQ(::access("/usr/bin/python3", X_OK), 0) << "install python3";
    ProcessConfig config = testbed::config();
    config.ready = 2;
    config.max_sandboxes = 4;
    config.zygote_copies = 2;
    config.spawn_patience = patience_;
    config.interpreters = {{kPython.argv,
                            {"json", "no_such_module"},
                            base::programDir() + "/cloister-zygote-python.so",
                            preparation}};
    auto host = ProcessHost::start(config);
    if (!host) GTEST_SKIP() << host.error().message;
    start(*std::move(host));
  }

  // Claims until a sandbox is a zygote's copy, or returns nullptr.
  std::shared_ptr<Live> claimCopy() {
    pool_->learn(limits_, {.key = "key"}, kPython);
    for (int i = 0; i < 500; ++i) {
      const auto live = claim(limits_, "key");
      if (!live || live->ahead() == Live::Ahead::kCopied) return live;
      bury(live);
    }
    return nullptr;
  }

  const Prestart kPython{"main.py", {"python3", "main.py"}, {"PATH=/usr/bin"}};
};

TEST_F(ZygoteTest, ACopyIsMadeWithTheSandbox) {
  const auto live = claimCopy();
  ASSERT_TRUE(live);
  EXPECT_TRUE(live->waiting());
  EXPECT_EQ(served(model::Served::kCopied), 1U);
  EXPECT_EQ(pool_->stats().copies, 1U);
  EXPECT_EQ(pool_->stats().zygotes, 1U);
  bury(live);
  EXPECT_EQ(testbed::slotsInUse(*host_), 0U);
}

TEST_F(ZygoteTest, TheLimitsOfAProgramAreNotThoseOfItsStart) {
  const auto first = claimCopy();
  ASSERT_TRUE(first);
  bury(first);
  model::Limits tight = limits_;
  tight.memory_bytes = 128 << 10;  // less than a start takes
  const auto refused = async::runTask(io_, pool_->claim(tight, {.key = "key"}));
  if (refused) bury(*refused);
  const auto next = claim(limits_, "key");
  ASSERT_TRUE(next);
  EXPECT_EQ(next->ahead(), Live::Ahead::kCopied) << "the zygote, whose memory it shared, is gone";
  bury(next);
}

TEST_F(ZygoteTest, AnotherTakesItsPlaceInTime) {
  const auto first = claimCopy();
  ASSERT_TRUE(first);
  for (int i = 0; i < 500; ++i) {
    const auto live = claim(limits_, "key");
    const bool another =
        live->ahead() == Live::Ahead::kCopied && live->spawner() != first->spawner();
    bury(live);
    if (another) break;
    ASSERT_LT(i, 499);
  }
  EXPECT_TRUE(first->waiting()) << "it lives as long as its sandboxes";
  bury(first);
}

TEST_F(ZygoteTest, OneThatDiesIsNotMissed) {
  const auto live = claimCopy();
  ASSERT_TRUE(live);
  live->spawner()->kill();
  EXPECT_TRUE(until([&] { return !live->waiting(); })) << "its sandboxes end with it";
  bury(live);
  const auto next = claim(limits_, "key");
  ASSERT_TRUE(next);
  EXPECT_NE(next->ahead(), Live::Ahead::kCopied);
  bury(next);
  bool another = false;
  for (int i = 0; i < 12'000 && !another; ++i) {
    const auto later = claim(limits_, "key");
    another = later->ahead() == Live::Ahead::kCopied;
    bury(later);
  }
  EXPECT_TRUE(another);
}

TEST_F(ZygoteTest, OneThatIsStoppedIsKilledAndNotMissed) {
  patience_ = Millis{5000};  // includes the zygote's start
  open(base::shareDir() + "/languages/zygote/python.py");
  const auto live = claimCopy();
  ASSERT_TRUE(live);
  bury(live);
  std::vector<pid_t> children;  // of the spawner, whose sandboxes are removed
  ASSERT_TRUE(until([&] {
    children = testbed::childrenOf(newestChild());
    return children.size() == 1;
  }));
  const pid_t zygote = children.front();
  ASSERT_EQ(::kill(zygote, SIGSTOP), 0);
  const auto next = claim(limits_, "key");
  ASSERT_TRUE(next);
  EXPECT_NE(next->ahead(), Live::Ahead::kCopied);
  EXPECT_TRUE(next->waiting());
  EXPECT_EQ(pool_->stats().zygotes, 0U);
  EXPECT_TRUE(until([&] { return ::kill(zygote, 0) != 0; })) << "it was killed";
  bury(next);
}

TEST_F(ZygoteTest, WithoutOneThereAreSandboxesAllTheSame) {
  open("/nonexistent");
  pool_->learn(limits_, {.key = "key"}, kPython);
  for (int i = 0; i < 4; ++i)
    bury(claim(limits_, "key"));
}

}  // namespace
}  // namespace cloister::runtime

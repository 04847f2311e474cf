// SPDX-License-Identifier: Apache-2.0
// Dependency layers of real sandboxes.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "sandbox/box/run.h"
#include "sandbox/pool/pool_fixture.h"

namespace cloister::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

class LayersTest : public PoolTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(base::makeDirs(store_));
    ProcessConfig config = testbed::config();
    config.layers = store_;
    config.spawn_patience = patience_;
    auto host = ProcessHost::start(config);
    if (!host) GTEST_SKIP() << host.error().message;
    start(*std::move(host));
  }
  void TearDown() override {
    PoolTest::TearDown();
    std::filesystem::remove_all(store_);
  }

  // The root directory of a layer whose digest is 64 times `digit`.
  std::string layer(char digit) const {
    std::string root = store_ + "/sha256-" + std::string(64, digit) + "/root";
    EXPECT_TRUE(base::makeDirs(root, 0755));
    return root;
  }

  Result<> attach(const std::shared_ptr<Live>& live, char digit, std::string_view place) {
    LayerOrder order;
    EXPECT_TRUE(addLayer(order, "sha256:" + std::string(64, digit), place));
    return async::runTask(io_, pool_->attachLayers(live, order));
  }

  std::string output(const std::shared_ptr<Live>& live, const std::string& script) {
    testbed::Recorder seen;
    const auto spec = testbed::command({"bash", "-c", script});
    const auto run = std::make_shared<runtime::Run>(live, spec, seen, [] {});
    const auto outcome = async::runTask(io_, run->go());
    EXPECT_TRUE(outcome) << outcome.error().message;
    return seen.out + seen.err;
  }

  std::string store_ = "/tmp/cloister-test-layers-" + base::randomHex(8);
};

TEST_F(LayersTest, AreReadOnlyAndShowNoPlaceOfTheHost) {
  const std::string python = layer('a') + "/python";
  ASSERT_TRUE(base::makeDirs(python, 0755));
  ASSERT_TRUE(base::writeFileAtomic(python + "/module.py", "there\n", 0644));
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  const auto attached = attach(live, 'a', "python");
  ASSERT_TRUE(attached) << attached.error().message;
  const std::string seen =
      output(live,
             "cat /run/deps/python/module.py; echo changed > /run/deps/python/module.py; "
             "touch /run/deps/python/new; ls /run/deps/python; cat /proc/self/mountinfo; "
             "ls /run/masked/hidden/layers");
  EXPECT_THAT(seen, HasSubstr("there\n"));
  EXPECT_THAT(seen, HasSubstr("module.py: Read-only file system"));
  EXPECT_THAT(seen, HasSubstr("'/run/deps/python/new': Read-only file system"));
  EXPECT_THAT(seen, Not(HasSubstr("\nnew\n")));
  EXPECT_THAT(seen, HasSubstr("/run/deps/python ro,nosuid,nodev"));
  EXPECT_THAT(seen, Not(HasSubstr("sha256-"))) << "neither the store nor its place on the host";
  EXPECT_EQ(base::readFile(python + "/module.py").value_or(""), "there\n");
  bury(live);
}

TEST_F(LayersTest, ModulesOfNodeAreAtTheRootWithALayerAlone) {
  ASSERT_TRUE(base::makeDirs(layer('b') + "/node_modules/hello", 0755));
  const auto live = claim(limits_);
  ASSERT_TRUE(live);
  const auto attached = attach(live, 'b', "node");
  ASSERT_TRUE(attached) << attached.error().message;
  EXPECT_EQ(output(live, "ls /node_modules"), "hello\n");
  bury(live);
  const auto without = claim(limits_);
  ASSERT_TRUE(without);
  EXPECT_EQ(output(without, "test -d /node_modules || echo none; ls /run/deps/python"), "none\n");
  bury(without);
}

// An installer wrote the layer, so its links are hostile.
TEST_F(LayersTest, NoLinkInALayerIsFollowed) {
  ASSERT_EQ(::symlink("/etc", (layer('c') + "/python").c_str()), 0);
  ASSERT_EQ(::symlink("../../../..", (layer('d') + "/python").c_str()), 0);
  for (const char digit : {'c', 'd', 'e'}) {  // the last is not there at all
    const auto live = claim(limits_);
    ASSERT_TRUE(live);
    const auto attached = attach(live, digit, "python");
    ASSERT_FALSE(attached) << digit;
    EXPECT_THAT(attached.error().message, HasSubstr("attaching layers: ")) << digit;
    bury(live);
  }
}

}  // namespace
}  // namespace cloister::runtime

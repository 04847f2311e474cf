// SPDX-License-Identifier: Apache-2.0
#include "node/layer_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "async/spawn.h"
#include "base/crypto.h"
#include "base/file.h"
#include "node/node_harness.h"

namespace cloister::node {
namespace {

using ::testing::HasSubstr;

class LayerStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(base::makeDirs(directory_, 0755));
    ASSERT_TRUE(base::makeDirs(workspace_ + "/python", 0755));
  }

  LayerStore store(uint64_t max_bytes = uint64_t{1} << 30) {
    return {io_.get_executor(),
            {.directory = directory_,
             .importer = base::programDir() + "/cloister-image",
             .max_bytes = max_bytes,
             .looks_every = Millis{0}}};
  }

  void put(const std::string& name, const std::string& content) const {
    ASSERT_TRUE(base::writeFileAtomic(workspace_ + "/" + name, content, 0644));
  }

  Result<base::json::object> add(LayerStore& store, const std::string& name) {
    Fd directory(::open(workspace_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_TRUE(directory);
    return async::runTask(io_, store.add(name, std::move(directory)));
  }
  std::string added(LayerStore& store, const std::string& name) {
    const auto made = add(store, name);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::string(made->at("digest").as_string()) : "";
  }
  Result<Fd> open(LayerStore& store, const std::string& digest) {
    return async::runTask(io_, store.open(digest));
  }
  [[nodiscard]] std::string rootOf(const std::string& digest) const {
    return directory_ + "/sha256-" + digest.substr(digest.find(':') + 1) + "/root";
  }

  TempDir temporary_;
  const std::string directory_ = temporary_.path() + "/layers";
  const std::string workspace_ = temporary_.path() + "/workspace";
  boost::asio::io_context io_{1};
};

TEST_F(LayerStoreTest, KeepsADirectoryByTheDigestOfItsContent) {
  put("python/a.py", "a = 1\n");
  ASSERT_EQ(::symlink("/etc/passwd", (workspace_ + "/python/link").c_str()), 0);
  LayerStore store = this->store();
  const auto made = add(store, "python-1");
  ASSERT_TRUE(made) << made.error().message;
  const std::string digest(made->at("digest").as_string());
  EXPECT_THAT(digest, ::testing::MatchesRegex("sha256:[0-9a-f]{64}"));
  EXPECT_EQ(base::readFile(rootOf(digest) + "/python/a.py").value_or(""), "a = 1\n");
  struct stat link{};
  ASSERT_EQ(::lstat((rootOf(digest) + "/python/link").c_str(), &link), 0);
  EXPECT_TRUE(S_ISLNK(link.st_mode)) << "kept as a link, and never read";
  EXPECT_EQ(added(store, "python-2"), digest) << "equal content is the same layer";
  const auto held = open(store, digest);
  EXPECT_TRUE(held) << held.error().message;
}

TEST_F(LayerStoreTest, WhatIsNotThereIsNotOpened) {
  LayerStore store = this->store();
  const auto missing = open(store, "sha256:" + std::string(64, 'a'));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().field, "layers");
  for (const char* digest : {"", "sha256:../../etc", "python-1"}) {
    const auto malformed = open(store, digest);
    ASSERT_FALSE(malformed) << digest;
    EXPECT_EQ(malformed.error().code, Code::kInvalid) << digest;
  }
}

TEST_F(LayerStoreTest, ALayerThatWasChangedIsNotOpened) {
  put("python/a.py", "a = 1\n");
  LayerStore store = this->store();
  const std::string digest = added(store, "python-1");
  ASSERT_TRUE(open(store, digest));
  ASSERT_TRUE(base::writeFileAtomic(rootOf(digest) + "/python/a.py", "a = 2\n", 0644));
  const auto changed = open(store, digest);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::kConflict);
  EXPECT_THAT(changed.error().message, HasSubstr("was changed on the node's disk"));
}

// The tenant of a layer chooses how many files it has: other sandboxes do not wait for their
// reading.
TEST_F(LayerStoreTest, OthersAreServedWhileALayerIsRead) {
  put("python/a.py", "a = 1\n");
  LayerStore store = this->store();
  const std::string digest = added(store, "python-1");
  bool served = false;
  std::vector<bool> opened;
  for (int i = 0; i < 3; ++i) {
    async::spawn(io_.get_executor(),
                 [](LayerStore& from, std::string digest, const bool& served,
                    std::vector<bool>& opened) -> runtime::Task<void> {
                   const auto layer = co_await from.open(std::move(digest));
                   EXPECT_TRUE(layer);
                   opened.push_back(served);
                 }(store, digest, served, opened));
  }
  boost::asio::post(io_, [&] { served = true; });
  io_.restart();
  io_.run();
  EXPECT_THAT(opened, ::testing::ElementsAre(true, true, true));
}

TEST_F(LayerStoreTest, LayersThatNoSandboxHasMakeRoom) {
  put("python/a.py", "a = 1\n");
  LayerStore store = this->store(1);
  const std::string first = added(store, "python-1");
  put("python/a.py", "a = 2\n");
  {
    const auto held = open(store, first);
    ASSERT_TRUE(held) << held.error().message;
    const auto full = add(store, "python-2");
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, Code::kQuota);
    EXPECT_THAT(full.error().message, HasSubstr("node.layers_mb"));
    EXPECT_TRUE(open(store, first));
  }
  const std::string second = added(store, "python-2");
  EXPECT_NE(second, first);
  EXPECT_TRUE(open(store, second));
  EXPECT_EQ(open(store, first).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cloister::node

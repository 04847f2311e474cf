// SPDX-License-Identifier: Apache-2.0
#include "sandbox/image/image_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "base/file.h"
#include "base/id.h"
#include "linux/tree_digest.h"

namespace cloister::runtime {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// A small image, and a cache of its own.
class ImageWatchTest : public testing::Test {
 protected:
  ImageWatchTest() {
    fs::create_directories(root() + "/usr/bin");
    put("usr/bin/tool", "tool");
    put("usr/bin/other", "other");
    // A change just before the first look would count as a change since.
    const int64_t settled = base::wallMicros() + 2 * linux::TreeDigest::kSettled / 1000;
    while (base::wallMicros() < settled)
      std::this_thread::sleep_for(milliseconds(1));
    ::setenv("CACHE_DIRECTORY", (top_ + "/cache").c_str(), 1);
  }
  ~ImageWatchTest() override {
    ::unsetenv("CACHE_DIRECTORY");
    watch_.reset();
    fs::remove_all(top_);
  }
  ImageWatchTest(const ImageWatchTest&) = delete;
  ImageWatchTest& operator=(const ImageWatchTest&) = delete;

  [[nodiscard]] std::string root() const { return top_ + "/root"; }
  void put(const std::string& path, const std::string& content) const {
    ASSERT_TRUE(base::writeFileAtomic(root() + "/" + path, content, 0644));
  }
  // Without a trace in its directory.
  void changeByte(const std::string& path) const {
    const int fd = ::open((root() + "/" + path).c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(::pwrite(fd, "X", 1, 0), 1);
    ::close(fd);
  }

  void start(milliseconds quiet = milliseconds(0), milliseconds every = milliseconds(600'000)) {
    watch_ = std::make_shared<ImageWatch>(
        io_.get_executor(),
        ImageWatchConfig{.image_root = root(), .quiet = quiet, .verify_every = every},
        [this] { ++changes_; });
    watch_->start();
  }
  template <class Condition>
  void runUntil(Condition done) {
    io_.restart();
    while (!done()) {
      ASSERT_GT(io_.run_one_for(std::chrono::seconds(20)), 0U) << "nothing happened";
    }
  }
  std::string digest() { return async::runTask(io_, watch_->digest()).value_or("none"); }
  std::string verified() {
    runUntil([&] { return !watch_->state().digest.empty(); });
    return watch_->state().digest;
  }

  std::string top_ = "/tmp/cloister-test-" + base::randomHex(8);
  boost::asio::io_context io_;
  int changes_ = 0;
  std::shared_ptr<ImageWatch> watch_;
};

TEST_F(ImageWatchTest, IsReadInTheBackground) {
  start(milliseconds(20));
  EXPECT_EQ(watch_->now().digest, "") << "nobody waits";
  EXPECT_EQ(findingOf(watch_->state()).state, model::Finding::State::kReduced);
  const std::string known = verified();
  EXPECT_TRUE(known.starts_with("sha256:"));
  EXPECT_EQ(watch_->now().digest, known);
  EXPECT_EQ(watch_->state().files, 2U);
  EXPECT_EQ(watch_->state().files_read, 2U);
  EXPECT_EQ(watch_->state().problem, "");
  EXPECT_EQ(findingOf(watch_->state()).state, model::Finding::State::kOk);
  EXPECT_EQ(changes_, 0);
}

TEST_F(ImageWatchTest, WhoWaitsStartsItAtOnce) {
  start(std::chrono::hours(1));
  const auto then = watch_->now();
  EXPECT_TRUE(digest().starts_with("sha256:"));
  const auto known = async::runTask(io_, watch_->verified(then));
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(*known, watch_->now().digest);
}

TEST_F(ImageWatchTest, ItsFirstDigestIsNotThatOfSandboxesThatWaitedThroughAChange) {
  start(std::chrono::hours(1));
  const auto then = watch_->now();
  const int64_t since = watch_->state().since;
  changeByte("usr/bin/tool");
  EXPECT_TRUE(digest().starts_with("sha256:"));
  EXPECT_EQ(changes_, 1) << "sandboxes that wait are given up";
  EXPECT_GE(watch_->state().changed_at, since);
  EXPECT_GT(watch_->state().since, since);
  EXPECT_THAT(watch_->state().changed, ElementsAre("/usr/bin/tool"));
  EXPECT_EQ(watch_->state().newest, "/usr/bin/tool");
  EXPECT_EQ(async::runTask(io_, watch_->verified(then)).error().code, Code::kConflict);
}

TEST_F(ImageWatchTest, IsKeptAcrossRestarts) {
  start();
  const std::string known = verified();
  start(std::chrono::hours(1));
  EXPECT_EQ(watch_->now().digest, known) << "at once";
  EXPECT_EQ(watch_->state().files_read, 0U);
  for (const auto& each : fs::directory_iterator(top_ + "/cache")) {
    if (each.path().extension() == ".digest") fs::remove(each.path());
  }
  start();
  EXPECT_EQ(watch_->now().digest, "");
  EXPECT_EQ(verified(), known);
  EXPECT_EQ(watch_->state().files_read, 0U) << "the hash of each file is kept, too";
}

// An account with write access to the cache directory could forge digests.
TEST_F(ImageWatchTest, BelievesNoCacheThatAnotherMayHaveWritten) {
  start();
  verified();
  for (const auto& each : fs::directory_iterator(top_ + "/cache")) {
    if (each.path().extension() != ".digest") continue;
    const std::string path = each.path();
    const std::string kept = base::readFile(path).value();
    const auto digestAtStart = [&] {
      start(std::chrono::hours(1));
      return watch_->now().digest;
    };
    EXPECT_NE(digestAtStart(), "");
    ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
    EXPECT_EQ(digestAtStart(), "") << "anybody may write it";
    ASSERT_TRUE(base::writeFileAtomic(top_ + "/elsewhere", kept, 0644));
    fs::remove(path);
    fs::create_symlink(top_ + "/elsewhere", path);
    EXPECT_EQ(digestAtStart(), "") << "a link";
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
    EXPECT_EQ(digestAtStart(), "") << "a FIFO is not waited for";
    fs::remove(path);
    ASSERT_TRUE(
        base::writeFileAtomic(path, kept.substr(0, kept.find(' ')) + " fff 1 1 /x\n", 0644));
    EXPECT_EQ(digestAtStart(), "") << "no digest";
  }
}

TEST_F(ImageWatchTest, AByteThatChangedGivesAnotherDigest) {
  start();
  const std::string known = verified();
  start(std::chrono::hours(1), milliseconds(50));
  EXPECT_EQ(watch_->now().digest, known);
  changeByte("usr/bin/tool");
  runUntil([&] { return watch_->state().digest != known; });
  EXPECT_NE(watch_->state().digest, "");
  EXPECT_THAT(watch_->state().changed, ElementsAre("/usr/bin/tool"));
  EXPECT_THAT(findingOf(watch_->state()).detail, HasSubstr("changed: /usr/bin/tool"));
  EXPECT_EQ(watch_->state().files_read, 1U);
  EXPECT_EQ(changes_, 1) << "new sandboxes get another root";
}

// As an installation of packages does.
TEST_F(ImageWatchTest, AFileThatComesMakesItUnverified) {
  start();
  const std::string known = verified();
  const auto then = watch_->now();
  put("usr/bin/new", "new");
  for (int i = 0; i < 500 && !watch_->now().digest.empty(); ++i)
    io_.run_for(milliseconds(20));
  EXPECT_EQ(changes_, 1);
  EXPECT_NE(watch_->now().epoch, then.epoch);
  EXPECT_NE(verified(), known);
}

// The content of the sandbox was never read, and is gone.
TEST_F(ImageWatchTest, WhatChangedBeforeItWasVerifiedIsNever) {
  start(std::chrono::hours(1));
  const auto then = watch_->now();
  changeByte("usr/bin/tool");
  const auto verified = async::runTask(io_, watch_->verified(then));
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Code::kConflict);
}

TEST_F(ImageWatchTest, AnImageThatKeepsChangingIsNamed) {
  int walks = 0;
  const auto content =
      readImage(root(), "", {.most_walks = 3, .first_pause = milliseconds(0), .before_walk = [&] {
                               ++walks;
                               changeByte("usr/bin/tool");
                             }});
  ASSERT_TRUE(content) << content.error().message;
  EXPECT_EQ(content->digest, "");
  EXPECT_EQ(walks, 3);
  EXPECT_THAT(content->changed, testing::Contains("/usr/bin/tool"));
}

}  // namespace
}  // namespace cloister::runtime

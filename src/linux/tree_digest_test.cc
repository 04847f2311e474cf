// SPDX-License-Identifier: Apache-2.0
#include "linux/tree_digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/id.h"

namespace cloister::linux {
namespace {

namespace fs = std::filesystem;
using Of = TreeDigest::Of;

class TreeDigestTest : public testing::Test {
 protected:
  TreeDigestTest() { fs::create_directories(tree()); }
  ~TreeDigestTest() override { fs::remove_all(top_); }
  TreeDigestTest(const TreeDigestTest&) = delete;
  TreeDigestTest& operator=(const TreeDigestTest&) = delete;

  [[nodiscard]] std::string tree() const { return top_ + "/tree"; }

  void put(const std::string& path, const std::string& content) {
    const fs::path whole = fs::path(tree()) / path;
    fs::create_directories(whole.parent_path());
    ASSERT_TRUE(base::writeFileAtomic(whole.string(), content, 0644));
    expected_[path] = "f 644 " + std::to_string(content.size()) + " " + base::sha256Hex(content);
  }

  // The manifest by the header's definition: lines in byte order of each directory's names, depth
  // first.
  [[nodiscard]] std::string expected() const {
    std::map<std::vector<std::string>, std::string> lines;
    for (const auto& [path, line] : expected_) {
      const fs::path whole = fs::path("tree") / path;
      const std::vector<std::string> parts(whole.begin(), whole.end());
      for (size_t n = 2; n < parts.size(); ++n)
        lines[{parts.begin(), parts.begin() + static_cast<ptrdiff_t>(n)}] = "d 755 0 -";
      lines[parts] = line;
    }
    std::string manifest;
    for (const auto& [parts, line] : lines) {
      std::string path;
      for (const std::string& part : parts)
        path += (path.empty() ? "" : "/") + part;
      manifest += line + " " + path + "\n";
    }
    return "sha256:" + base::sha256Hex(manifest);
  }

  // Waits until written files can no longer change under the same stamp.
  static void settle() {
    const auto settled = std::chrono::nanoseconds(TreeDigest::kSettled);
    std::this_thread::sleep_for(settled + std::chrono::milliseconds(10));
  }

  // Number of files read when an earlier walk's cache is given.
  int read(const std::string& known) {
    int files = 0;
    TreeDigest walk(Of::kEverything, known);
    walk.onRead([&] { ++files; });
    const auto added = walk.add(top_, "tree");
    EXPECT_TRUE(added) << added.error().message;
    EXPECT_EQ(walk.digest(), expected());
    return files;
  }

  std::string cacheOf(const std::string& known) {
    TreeDigest walk(Of::kEverything, known);
    EXPECT_TRUE(walk.add(top_, "tree"));
    return walk.cache();
  }

  std::string top_ = "/tmp/cloister-test-" + base::randomHex(8);
  std::map<std::string, std::string> expected_;
};

TEST_F(TreeDigestTest, IsOfTheManifestInItsOrder) {
  // More files than are read ahead, files larger than the bound of a single file, and names whose
  // order depends on their directory's slash.
  for (int i = 0; i < 400; ++i)
    put("many/" + std::to_string(i), std::string(static_cast<size_t>(i), 'x'));
  put("many.d/file", "a");
  put("many-more", "b");
  put("large/1", std::string((size_t{9} << 20) + 17, 'l'));
  put("large/2", std::string(size_t{4} << 20, 'm'));
  put("empty", "");
  EXPECT_EQ(read(""), 405);
}

TEST_F(TreeDigestTest, LooksNotIntoWhatIsClosed) {
  const auto digest = [this](const std::string& closed) {
    TreeDigest walk(Of::kEverything, "", {.closed = closed});
    EXPECT_TRUE(walk.add(top_, "tree"));
    return walk.digest();
  };
  put("a/etc/x", "1");
  put("etc", "1");
  const std::string open = digest("");
  const std::string closed = digest("tree/a/etc");
  EXPECT_EQ(digest("tree/etc"), open) << "a file is no directory";
  put("a/etc/x", "2");
  put("a/etc/y", "2");
  EXPECT_EQ(digest("tree/a/etc"), closed);
  EXPECT_NE(digest(""), open);
  fs::remove_all(fs::path(tree()) / "a/etc");
  EXPECT_NE(digest("tree/a/etc"), closed) << "that it is there is seen";
}

// A file whose name looks like two lines, compared with two files.
TEST_F(TreeDigestTest, TellsANameWithANewlineFromTwoFiles) {
  const std::string line = "f 644 1 " + base::sha256Hex("y") + " tree/b";
  put("a\n" + line.substr(0, line.rfind('/')) + "/b", "x");
  TreeDigest one(Of::kEverything);
  ASSERT_TRUE(one.add(top_, "tree"));
  fs::remove_all(tree());
  put("a", "x");
  put("b", "y");
  TreeDigest two(Of::kEverything);
  ASSERT_TRUE(two.add(top_, "tree"));
  EXPECT_NE(one.digest(), two.digest());
}

TEST_F(TreeDigestTest, ReadsNothingThatIsKnown) {
  for (int i = 0; i < 300; ++i)
    put(std::to_string(i), std::to_string(i));
  settle();
  const std::string known = cacheOf("");
  EXPECT_EQ(read(known), 0);
  put("150", "changed");
  put("new", "new");
  EXPECT_EQ(read(known), 2);
}

TEST_F(TreeDigestTest, GoesOnFromWhatAWalkThatBrokeOffHadRead) {
  for (int i = 0; i < 300; ++i)
    put(std::to_string(i), std::to_string(i));
  settle();
  const std::string old = cacheOf("");
  put("0", "changed");
  put("99", "changed as well");  // the last
  settle();
  int files = 0;
  std::string kept;
  TreeDigest walk(Of::kEverything, old);
  walk.onRead([&] {
    if (++files == 1) kept = walk.cache() + old;
  });
  ASSERT_TRUE(walk.add(top_, "tree"));
  EXPECT_EQ(files, 2);
  EXPECT_EQ(read(kept), 1) << "what was read is before what was known, and counts";
}

TEST_F(TreeDigestTest, ThreadsHashTheSame) {
  for (int i = 0; i < 500; ++i)
    put("many/" + std::to_string(i), std::string(static_cast<size_t>(i) * 100, 'x'));
  put("large", std::string((size_t{9} << 20) + 17, 'l'));
  for (const unsigned threads : {1U, 3U}) {
    TreeDigest walk(Of::kEverything, "", {.threads = threads});
    ASSERT_TRUE(walk.add(top_, "tree"));
    EXPECT_EQ(walk.digest(), expected());
    EXPECT_EQ(walk.seen().files, 501U);
    EXPECT_EQ(walk.seen().files_read, 501U);
  }
}

TEST_F(TreeDigestTest, ReadsAgainWhatMayChangeUnderTheSameStamp) {
  put("old", "old");
  settle();
  put("young", "young");
  TreeDigest walk(Of::kEverything);
  ASSERT_TRUE(walk.add(top_, "tree"));
  EXPECT_FALSE(walk.settled());
  EXPECT_EQ(read(walk.cache()), 1) << "the young one";
  settle();
  TreeDigest later(Of::kEverything, walk.cache());
  ASSERT_TRUE(later.add(top_, "tree"));
  EXPECT_TRUE(later.settled());
  EXPECT_EQ(read(later.cache()), 0);
}

TEST_F(TreeDigestTest, NamesWhatChangedSinceTheCache) {
  for (int i = 0; i < 30; ++i)
    put(std::to_string(i), std::to_string(i));
  settle();
  const std::string known = cacheOf("");
  // In place: nothing of its directory changes, nor does its size.
  const int fd = ::open((tree() + "/7").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::pwrite(fd, "x", 1, 0), 1);
  ::close(fd);
  settle();
  TreeDigest walk(Of::kEverything, known);
  ASSERT_TRUE(walk.add(top_, "tree"));
  EXPECT_EQ(walk.seen().changed, std::vector<std::string>{"tree/7"});
  EXPECT_EQ(walk.seen().files_read, 1U);
  EXPECT_NE(walk.digest(), expected());
}

TEST_F(TreeDigestTest, NamesWhatChangesWhileItIsRead) {
  put("first", "1");
  put("last", "2");
  settle();
  TreeDigest walk(Of::kEverything);
  bool changed = false;
  walk.onRead([&] {  // the second file is open and looked at by now
    if (std::exchange(changed, true)) return;
    const int fd = ::open((tree() + "/last").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    EXPECT_EQ(::write(fd, "more", 4), 4);
    ::close(fd);
  });
  ASSERT_TRUE(walk.add(top_, "tree"));
  EXPECT_EQ(walk.seen().changed, std::vector<std::string>{"tree/last"});
  EXPECT_FALSE(walk.settled());
  EXPECT_FALSE(walk.cache().contains("tree/last"));
}

TEST_F(TreeDigestTest, DoesNotReadWhatOthersMayNot) {
  put("mine", "secret");
  ASSERT_EQ(::chmod((tree() + "/mine").c_str(), 0640), 0);
  expected_["mine"] = "f 640 6 -";
  int files = 0;
  TreeDigest walk(Of::kWhatOthersRead);
  walk.onRead([&] { ++files; });
  ASSERT_TRUE(walk.add(top_, "tree"));
  EXPECT_EQ(files, 0);
  EXPECT_EQ(walk.digest(), expected());
}

}  // namespace
}  // namespace cloister::linux

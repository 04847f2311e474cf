// SPDX-License-Identifier: Apache-2.0
#include "linux/tree_digest.h"

#include <sys/stat.h>

#include <filesystem>
#include <map>
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

  // What the header says: lines in the byte order of the names of each directory, depth first.
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

  // How many files are read with what is known of an earlier walk.
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
  // More than is read ahead, with files that are larger than that of one, and names that sort
  // otherwise with their directory's slash than without.
  for (int i = 0; i < 400; ++i)
    put("many/" + std::to_string(i), std::string(static_cast<size_t>(i), 'x'));
  put("many.d/file", "a");
  put("many-more", "b");
  put("large/1", std::string((size_t{9} << 20) + 17, 'l'));
  put("large/2", std::string(size_t{4} << 20, 'm'));
  put("empty", "");
  EXPECT_EQ(read(""), 405);
}

TEST_F(TreeDigestTest, ReadsNothingThatIsKnown) {
  for (int i = 0; i < 300; ++i)
    put(std::to_string(i), std::to_string(i));
  const std::string known = cacheOf("");
  EXPECT_EQ(read(known), 0);
  put("150", "changed");
  put("new", "new");
  EXPECT_EQ(read(known), 2);
}

TEST_F(TreeDigestTest, GoesOnFromWhatAWalkThatBrokeOffHadRead) {
  for (int i = 0; i < 300; ++i)
    put(std::to_string(i), std::to_string(i));
  const std::string old = cacheOf("");
  put("0", "changed");
  put("99", "changed as well");  // the last
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

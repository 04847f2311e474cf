// SPDX-License-Identifier: Apache-2.0
#include "api/ui/files.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/id.h"

namespace cloister::api::ui {
namespace {

namespace fs = std::filesystem;

class UiFiles : public testing::Test {
 protected:
  UiFiles() { fs::create_directories(dir_ / "assets"); }
  ~UiFiles() override { fs::remove_all(dir_); }

  void put(const std::string& path, const std::string& text) const {
    std::ofstream(dir_ / path) << text;
  }

  fs::path dir_ = fs::temp_directory_path() / base::newId("ui_files");
};

TEST_F(UiFiles, ReadsRegularFilesAlone) {
  put("index.html", "<head><base href=\"/ui/\"></head>");
  put("assets/a.js", "a");
  put("assets/a.js.gz", "packed");
  put("lonely.css.gz", "packed");
  put(".secret", "no");
  fs::create_directories(dir_ / ".git");
  put(".git/config", "no");
  fs::create_symlink("/etc/passwd", dir_ / "link.txt");
  fs::create_directory_symlink("/etc", dir_ / "etc");
  const Files files = Files::read(dir_.string()).value();
  EXPECT_TRUE(files.installed());
  const File* script = files.find("assets/a.js");
  ASSERT_NE(script, nullptr);
  EXPECT_EQ(script->bytes, "a");
  EXPECT_EQ(script->gzip, "packed");
  EXPECT_EQ(script->type, "text/javascript; charset=utf-8");
  EXPECT_EQ(script->etag.size(), 34U);
  for (const char* path : {"link.txt", "etc/passwd", ".secret", ".git/config", "assets",
                           "assets/a.js.gz", "lonely.css", "", "../index.html", "/index.html"})
    EXPECT_EQ(files.find(path), nullptr) << path;
}

TEST_F(UiFiles, WritesThePrefixIntoTheIndex) {
  put("index.html", "<head><base href=\"/ui/\"></head>");
  const Files files = Files::read(dir_.string()).value();
  EXPECT_EQ(files.index(""), "<head><base href=\"/ui/\"></head>");
  EXPECT_EQ(files.index("/a/b"), "<head><base href=\"/a/b/ui/\"></head>");
}

TEST_F(UiFiles, IsBounded) {
  EXPECT_FALSE(Files::read((dir_ / "none").string())->installed());
  for (size_t i = 0; i < Files::kMaxFiles; ++i)
    put("assets/" + std::to_string(i), "");
  EXPECT_TRUE(Files::read(dir_.string()));
  put("one-more", "");
  EXPECT_EQ(Files::read(dir_.string()).error().code, Code::kTooLarge);
  fs::remove(dir_ / "one-more");
  put("assets/0", std::string(Files::kMaxBytes, 'x'));
  EXPECT_TRUE(Files::read(dir_.string()));
  put("assets/1", "x");
  EXPECT_EQ(Files::read(dir_.string()).error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace cloister::api::ui

// SPDX-License-Identifier: Apache-2.0
// Effects of the command line on this machine: the admin key and its server, files.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/download.h"
#include "cli/server.h"
#include "supervisor/state_dir.h"

namespace cloister::cli {
namespace {

namespace fs = std::filesystem;

class Local : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(dir_.data()), nullptr); }
  void TearDown() override { fs::remove_all(dir_); }
  std::string dir_ = testing::TempDir() + "cloister-XXXXXX";
};

// The admin key is sent only to the server that holds the directory.
TEST_F(Local, TheAdminKeyStaysWithItsServer) {
  ::unsetenv("CLOISTER_URL");
  ::unsetenv("CLOISTER_API_KEY");
  ASSERT_TRUE(base::writeFileAtomic(supervisor::addressPath(dir_), "127.0.0.1:4711\n", 0644));
  ASSERT_TRUE(base::writeFileAtomic(supervisor::adminKeyPath(dir_), "clo_admin\n", 0600));
  Globals here{.state = dir_};
  EXPECT_FALSE(findServer(here).value()) << "nobody holds the directory";
  const auto lock = supervisor::lockState(dir_, Millis(0));
  ASSERT_TRUE(findServer(here).value());
  EXPECT_EQ(findServer(here).value()->key, "clo_admin");
  EXPECT_EQ(findServer(here).value()->url.port, "4711");

  Globals same{.url = "http://127.0.0.1:4711", .state = dir_};
  EXPECT_EQ(findServer(same).value()->key, "clo_admin");
  Globals other{.url = "http://127.0.0.1:4712", .state = dir_};
  EXPECT_EQ(findServer(other).value()->key, "");
}

TEST_F(Local, DownloadsStayBelowTheirDirectory) {
  ASSERT_TRUE(createBelow(dir_, "a/b/c.txt"));
  EXPECT_TRUE(fs::is_regular_file(dir_ + "/a/b/c.txt"));
  for (const std::string path :
       {"../x", "/etc/x", "a/../x", "a//x", "./x", "", "a/", "..", "a/b/.."}) {
    EXPECT_FALSE(createBelow(dir_, path)) << path;
  }
  EXPECT_FALSE(createBelow(dir_, std::string_view("a\0b", 3)));
  fs::create_directory(dir_ + "/outside");
  fs::create_directory(dir_ + "/in");
  fs::create_symlink(dir_ + "/outside", dir_ + "/in/link");
  fs::create_symlink(dir_ + "/outside/target", dir_ + "/in/file");
  EXPECT_FALSE(createBelow(dir_ + "/in", "link/x"));
  EXPECT_FALSE(createBelow(dir_ + "/in", "file"));
  EXPECT_TRUE(fs::is_empty(dir_ + "/outside"));
}

}  // namespace
}  // namespace cloister::cli

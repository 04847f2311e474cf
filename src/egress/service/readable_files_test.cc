// SPDX-License-Identifier: Apache-2.0
#include "egress/service/readable_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "base/file.h"
#include "linux/in_child.h"
#include "linux/process.h"

namespace cloister::egress {
namespace {

bool opens(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).get() >= 0;
}

class ReadableFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (linux::landlockAbi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    ASSERT_TRUE(base::makeDirs(dir_ + "/keys", 0700));
    ASSERT_TRUE(base::makeDirs(dir_ + "/authorities", 0700));
    for (const char* each : {"/keys/permit.pub", "/keys/permit.key", "/ledger", "/authorities/a"})
      ASSERT_TRUE(base::writeFileAtomic(dir_ + each, "x", 0600));
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // The exit code of `body` under the rules.
  static int under(const ReadableFiles& files, const std::function<int()>& body) {
    return linux::inChild([&] {
      if (!linux::setNoNewPrivs()) return 100;
      if (!linux::restrictWithLandlock(linux::landlockAbi(), readableFiles(files))) return 101;
      return body();
    });
  }
  [[nodiscard]] ReadableFiles files(bool resolver, bool authorities) const {
    return {.key = dir_ + "/keys/permit.pub",
            .host_resolver = resolver,
            .host_authorities = authorities};
  }

  std::string dir_ = testing::TempDir() + "readable-XXXXXX";
};

TEST_F(ReadableFilesTest, AreTheKeyAndNoOtherOfItsDirectory) {
  EXPECT_EQ(under(files(false, false),
                  [&] {
                    if (!opens(dir_ + "/keys/permit.pub")) return 1;
                    if (opens(dir_ + "/keys/permit.key")) return 2;
                    if (opens(dir_ + "/ledger") || opens("/etc/passwd") || opens("/proc/self/maps"))
                      return 3;
                    if (opens("/bin/sh") || opens(dir_ + "/authorities/a")) return 4;
                    return opens("/etc/hostname") ? 5 : 0;
                  }),
            0);
}

TEST_F(ReadableFilesTest, AKeyThatComesLaterIsRead) {
  ASSERT_EQ(::unlink((dir_ + "/keys/permit.pub").c_str()), 0);
  EXPECT_EQ(linux::inChild([&] {
              const auto rules = readableFiles(files(false, false));
              if (!base::writeFileAtomic(dir_ + "/keys/permit.pub", "x", 0600)) return 1;
              if (!linux::setNoNewPrivs()) return 2;
              if (!linux::restrictWithLandlock(linux::landlockAbi(), rules)) return 3;
              return opens(dir_ + "/keys/permit.pub") && !opens(dir_ + "/ledger") ? 0 : 4;
            }),
            0);
}

TEST_F(ReadableFilesTest, HaveTheHostsResolverAndAuthoritiesWhereNeeded) {
  ASSERT_EQ(::setenv("SSL_CERT_DIR", ("/nonexistent::" + dir_ + "/authorities").c_str(), 1), 0);
  EXPECT_EQ(under(files(true, true),
                  [&] {
                    if (!opens("/etc/passwd")) return 1;  // resolv.conf may be replaced beside it
                    if (!opens(dir_ + "/authorities/a")) return 2;
                    return opens(dir_ + "/ledger") || opens("/proc/self/maps") ? 3 : 0;
                  }),
            0);
  ::unsetenv("SSL_CERT_DIR");
}

}  // namespace
}  // namespace cloister::egress

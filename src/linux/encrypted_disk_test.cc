// SPDX-License-Identifier: Apache-2.0
#include "linux/encrypted_disk.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/id.h"
#include "linux/in_child.h"
#include "linux/mounts.h"

namespace cloister::linux {
namespace {

constexpr DiskShape kShape{.bytes = uint64_t{64} << 20, .inodes = 500};
constexpr std::string_view kSecret = "known-contents-of-a-workspace";

class EncryptedDiskTest : public testing::Test {
 protected:
  EncryptedDiskTest() { std::filesystem::create_directory(path_); }
  ~EncryptedDiskTest() override { std::filesystem::remove(path_); }

  void SetUp() override {
    const DiskLack lack = encryptedDiskLack(path_);
    if (!lack.what.empty()) GTEST_SKIP() << lack.what;
    directory_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto format = formatDisk(kShape);
    ASSERT_TRUE(format) << format.error().message;
    format_ = *std::move(format);
  }

  [[nodiscard]] Result<EncryptedDisk> make(DiskOptions options = {}) const {
    return EncryptedDisk::make(directory_.get(), kShape, format_.get(), options);
  }

  // The exit code of a child that mounts the disk at /mnt, and enters its encrypted directory.
  static int within(EncryptedDisk& disk, const std::function<int()>& body) {
    const Fd mount = disk.takeMount();
    return inChild([&] {
      const bool there =
          unshareNamespaces(CLONE_NEWNS) && makePrivate() && attachMount(mount.get(), "/mnt");
      if (!there || ::chdir((std::string("/mnt/") + kEncryptedDirectory).c_str()) != 0) return 99;
      return body();
    });
  }

  // Number of loop devices for files of this test.
  [[nodiscard]] size_t loops() const {
    size_t count = 0;
    for (const auto& device : std::filesystem::directory_iterator("/sys/block")) {
      const auto file = base::readFile(device.path().string() + "/loop/backing_file");
      count += file && file->starts_with(path_) ? 1 : 0;
    }
    return count;
  }

  const std::string path_ = "/tmp/cloister-test-" + base::randomHex(8);
  Fd directory_;
  Fd format_;
};

int writeMany(uint64_t most) {
  for (uint64_t i = 0; i < most; ++i) {
    const Fd file(::open(std::to_string(i).c_str(), O_CREAT | O_WRONLY, 0600));
    if (!file) return errno == ENOSPC ? static_cast<int>(i / 10) : 98;
  }
  return 97;
}

TEST_F(EncryptedDiskTest, HasSoManyInodesAndNotOneMore) {
  auto disk = make();
  ASSERT_TRUE(disk) << disk.error().message;
  const int tens = within(*disk, [] { return writeMany(10 * kShape.inodes); });
  EXPECT_LE(tens, 50);
  EXPECT_GE(tens, 46) << "the file system's own, and whole blocks of them in each group";
  disk->destroy();
}

TEST_F(EncryptedDiskTest, EndsWhereItsBytesEnd) {
  auto disk = make();
  ASSERT_TRUE(disk) << disk.error().message;
  EXPECT_EQ(within(*disk,
                   [] {
                     const std::string chunk(1 << 20, 'x');
                     const Fd file(::open("fill", O_CREAT | O_WRONLY, 0600));
                     uint64_t written = 0;
                     for (ssize_t n = 0; (n = ::write(file.get(), chunk.data(), chunk.size())) > 0;)
                       written += static_cast<uint64_t>(n);
                     return errno == ENOSPC && written > kShape.bytes / 10 * 9 &&
                                    written < kShape.bytes
                                ? 0
                                : 1;
                   }),
            0);
  disk->destroy();
}

TEST_F(EncryptedDiskTest, NothingReadableIsOnTheDevice) {
  auto disk = make();
  ASSERT_TRUE(disk) << disk.error().message;
  EXPECT_EQ(within(*disk,
                   [] {
                     std::string text;
                     while (text.size() < size_t{1} << 20)
                       text += kSecret;
                     const std::string name = "name-" + std::string(kSecret);
                     const Fd file(::open(name.c_str(), O_CREAT | O_WRONLY, 0600));
                     const auto size = static_cast<ssize_t>(text.size());
                     if (::write(file.get(), text.data(), text.size()) != size) return 1;
                     if (::symlink(("to-" + std::string(kSecret)).c_str(), "link") != 0) return 2;
                     // Reads the whole raw device.
                     if (::syncfs(file.get()) != 0) return 3;
                     std::string device = base::readFile("/proc/self/mountinfo").value_or("");
                     device = device.substr(device.find("/dev/loop", device.find(" /mnt ")));
                     const auto raw =
                         base::readFile(device.substr(0, device.find(' ')), size_t{1} << 30);
                     if (!raw || raw->size() != kShape.bytes) return 4;
                     return raw->find(kSecret) == std::string::npos ? 0 : 5;
                   }),
            0);
  disk->destroy();
}

TEST_F(EncryptedDiskTest, ItsDirectoryBelongsToWhoItIsFor) {
  auto disk = make({.uid = 12'345, .gid = 12'346});
  ASSERT_TRUE(disk) << disk.error().message;
  EXPECT_EQ(within(*disk,
                   [] {
                     struct stat own{};
                     struct stat root{};
                     if (::stat(".", &own) != 0 || ::stat("..", &root) != 0) return 1;
                     if (own.st_uid != 12'345 || own.st_gid != 12'346) return 2;
                     return root.st_uid == 0 && (root.st_mode & 0022) == 0 ? 0 : 3;
                   }),
            0);
  disk->destroy();
}

TEST_F(EncryptedDiskTest, NothingIsLeftOnceItIsDestroyed) {
  auto disk = make();
  ASSERT_TRUE(disk) << disk.error().message;
  EXPECT_EQ(loops(), 1U);
  EXPECT_EQ(within(*disk, [] { return writeMany(10); }), 97);
  disk->destroy();
  EXPECT_EQ(loops(), 0U);
}

TEST_F(EncryptedDiskTest, NorWhenWhoMadeItDies) {
  EXPECT_EQ(inChild([&] {
              auto disk = make();
              if (!disk) return 1;
              return ::kill(::getpid(), SIGKILL);
            }),
            128 + SIGKILL);
  for (int i = 0; i < 5000 && loops() != 0; ++i)
    ::usleep(1000);
  EXPECT_EQ(loops(), 0U);
}

TEST_F(EncryptedDiskTest, LeavesSpaceToOthers) {
  struct statfs space{};
  ASSERT_EQ(::fstatfs(directory_.get(), &space), 0);
  const uint64_t free = space.f_bavail * static_cast<uint64_t>(space.f_bsize);
  const auto disk = make({.keep_free = free});
  ASSERT_FALSE(disk);
  EXPECT_EQ(disk.error().code, Code::kNoSpace);
}

TEST(EncryptedDisk, SaysWhatIsMissing) {
  if (::geteuid() != 0) {
    EXPECT_EQ(encryptedDiskLack("/tmp").remedy, "run cloister-node as root");
  } else {
    EXPECT_NE(encryptedDiskLack("/proc").what, "");
  }
}

}  // namespace
}  // namespace cloister::linux

// SPDX-License-Identifier: Apache-2.0
#include "runner/share.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/file.h"

namespace cloister::runner {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMemory = uint64_t{64} << 20;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string textOf(const fs::path& path) {
  return base::readFile(path).value_or("none");
}

// Makes a root whose kernel has three processors, on a private file system.
void makeRoot(const fs::path& root) {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(2);
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", root.c_str(), "tmpfs", 0, nullptr) != 0) {
    ::_exit(2);
  }
  put(root / "proc/cpuinfo", "processor : 0\nflags : a\n\nprocessor : 1\n\nprocessor : 2\n\n");
  put(root / "proc/stat", "cpu  9 9\ncpu0 1 1\ncpu1 2 2\ncpu2 3 3\nbtime 7\n");
  put(root / "proc/meminfo", "MemTotal: 1 kB\n");
  put(root / "sys/devices/system/cpu/online", "0-2\n");
  put(root / "workspace/file", "kept");
}

// Runs in a child, and returns its wait status: 0 without failed expectations.
template <class Look>
int failuresIn(const Look& look) noexcept {
  const fs::path root = "/tmp";
  const pid_t child = ::fork();
  if (child == 0) {
    makeRoot(root);
    look(root);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

class Share : public ::testing::Test {
 protected:
  Share() {
    cpu_set_t have;
    CPU_ZERO(&have);
    ::sched_getaffinity(0, sizeof have, &have);
    processors_ = CPU_COUNT(&have);
  }
  int processors_ = 0;
};

TEST_F(Share, CoversWhatTheKernelSays) {
  if (processors_ < 2) GTEST_SKIP() << "one processor";
  EXPECT_EQ(
      failuresIn([](const fs::path& root) {
        EXPECT_TRUE(showShare(root.c_str(), 1, kMemory)) << errno;
        EXPECT_EQ(textOf(root / "proc/cpuinfo"), "processor : 0\nflags : a\n\n");
        EXPECT_EQ(textOf(root / "proc/stat"), "cpu  9 9\ncpu0 1 1\nbtime 7\n");
        EXPECT_TRUE(
            textOf(root / "proc/meminfo").starts_with("MemTotal: 65536 kB\nMemFree: 65536 kB\n"));
        EXPECT_EQ(textOf(root / "sys/devices/system/cpu/online"), "0-0\n");
        EXPECT_TRUE(fs::is_directory(root / "sys/devices/system/cpu/cpu0"));
        EXPECT_EQ(textOf(root / "workspace/file"), "kept");
      }),
      0);
}

TEST_F(Share, NobodyCanChangeIt) {
  EXPECT_EQ(failuresIn([](const fs::path& root) {
              EXPECT_TRUE(showShare(root.c_str(), 1, kMemory)) << errno;
              const Fd file(::open((root / "proc/meminfo").c_str(), O_WRONLY | O_CLOEXEC));
              EXPECT_FALSE(file);
              EXPECT_EQ(errno, EROFS);
            }),
            0);
}

TEST_F(Share, LeavesWhatIsNotLess) {
  EXPECT_EQ(failuresIn([](const fs::path& root) {
              EXPECT_TRUE(showShare(root.c_str(), CPU_SETSIZE, 0)) << errno;
              EXPECT_EQ(textOf(root / "proc/meminfo"), "MemTotal: 1 kB\n");
              EXPECT_EQ(textOf(root / "sys/devices/system/cpu/online"), "0-2\n");
            }),
            0);
}

TEST_F(Share, ProcessorsAreOthersForEach) {
  if (processors_ < 2) GTEST_SKIP() << "one processor";
  const auto used = [](unsigned first) {
    return failuresIn([first](const fs::path&) {
      cpu_set_t before;
      cpu_set_t after;
      ::sched_getaffinity(0, sizeof before, &before);
      EXPECT_TRUE(useProcessors(1, first)) << errno;
      ::sched_getaffinity(0, sizeof after, &after);
      EXPECT_EQ(CPU_COUNT(&after), 1);
      unsigned place = 0;
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &before)) continue;
        EXPECT_EQ(CPU_ISSET(cpu, &after) != 0, place == first);
        ++place;
      }
    });
  };
  EXPECT_EQ(used(0), 0);
  EXPECT_EQ(used(1), 0);
}

}  // namespace
}  // namespace cloister::runner

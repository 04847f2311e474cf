// SPDX-License-Identifier: Apache-2.0
#include "linux/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "linux/cgroup_files.h"
#include "linux/in_child.h"

namespace cloister::linux {
namespace {

constexpr char kMountinfo[] =
    "24 1 0:21 / /proc rw,relatime - proc proc rw\n"
    "31 24 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    "33 32 0:28 /pod /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "nonsense\n";

TEST(CgroupText, FindsMounts) {
  const auto mounts = parseCgroupMounts(kMountinfo);
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_TRUE(mounts[0].v2);
  EXPECT_EQ(mounts[0].path, "/sys/fs/cgroup");
  EXPECT_FALSE(mounts[1].v2);
  EXPECT_EQ(mounts[1].root, "/pod");
  EXPECT_TRUE(contains(mounts[1].controllers, "cpuacct"));
}

TEST(CgroupText, FindsTheOwnGroup) {
  constexpr char kText[] = "12:cpu,cpuacct:/pod/x\n1:name=systemd:/y\n0::/user.slice\n";
  EXPECT_EQ(findOwnGroup(kText, "cpuacct"), "/pod/x");
  EXPECT_EQ(findOwnGroup(kText, ""), "/user.slice");
  EXPECT_EQ(findOwnGroup(kText, "memory"), std::nullopt);
}

TEST(CgroupText, StaysInsideWhatIsMounted) {
  CgroupMount mount{"/proc", "/pod", false, {}};
  EXPECT_EQ(directoryOf(mount, "/pod/self"), "/proc/self");
  EXPECT_EQ(directoryOf(mount, "/../../elsewhere"), "/proc");
  EXPECT_EQ(directoryOf(mount, "/pod/not-there"), "/proc");
}

TEST(CgroupText, AddsUp) {
  EXPECT_EQ(sumOf("8:0 rbytes=10 wbytes=1\n8:1 rbytes=32 wbytes=2\n", "rbytes="), 42U);
  EXPECT_EQ(sumOf("", "rbytes="), 0U);
}

// The groups of nodes, in each hierarchy, below the own group or at the root.
std::set<std::string> nodeGroups() {
  const std::string own = base::readFile("/proc/self/cgroup").value_or("");
  std::set<std::string> found;
  for (const CgroupMount& mount :
       parseCgroupMounts(base::readFile("/proc/self/mountinfo").value_or(""))) {
    const std::string controller = mount.v2 ? "" : mount.controllers.back();
    const std::string group = findOwnGroup(own, controller).value_or("/");
    for (const std::string& top : {directoryOf(mount, group), mount.path}) {
      std::error_code none;
      for (const auto& entry : std::filesystem::directory_iterator(top + "/cloister-unit", none)) {
        if (entry.path().filename().string().starts_with("node-")) found.insert(entry.path());
      }
    }
  }
  return found;
}

bool freeze(const std::string& group) {
  for (const auto& [file, value] : {std::pair("freezer.state", "FROZEN"), {"cgroup.freeze", "1"}}) {
    const Fd fd(::open((group + "/" + file).c_str(), O_WRONLY | O_CLOEXEC));
    if (fd && ::write(fd.get(), value, ::strlen(value)) > 0) return true;
  }
  return false;
}

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    auto tree = CgroupTree::open("cloister-unit");
    if (!tree) GTEST_SKIP() << tree.error().message;
    tree_ = *std::move(tree);
  }

  // Starts a child that joins the group and then runs `body`.
  Cloned startIn(const Cgroup& group, const std::function<void()>& body) {
    auto child = cloneProcess(0, group.cloneFd());
    EXPECT_TRUE(child) << child.error().message;
    if (child->pid == 0) {
      for (const int fd : group.joinFds()) {
        if (::write(fd, "0", 1) != 1) ::_exit(1);
      }
      body();
      ::_exit(0);
    }
    return *std::move(child);
  }

  [[noreturn]] static void forkFive() {
    for (int i = 0; i < 5 && ::fork() != 0; ++i) {
    }
    for (;;)
      ::pause();
  }

  // Acts as a node with a process in a frozen part of a group, until killed. Call in a process that
  // then exits: 0 is success.
  int leaveFrozen() {
    auto tree = CgroupTree::open("cloister-unit");
    if (!tree) return 1;
    auto group = (*tree)->create("four", {uint64_t{16} << 20, 1000, 3});
    if (!group) return 2;
    auto part = (*group)->split("part");
    if (!part) return 3;
    const Cloned child = startIn(**part, [] {
      if (!closeFrom(3)) ::_exit(1);  // the tree's lock is not for sandboxes
      for (;;)
        ::pause();
    });
    const std::string inherited = "/proc/" + std::to_string(child.pid) + "/fd/3";
    while (::access(inherited.c_str(), F_OK) == 0)  // until the child has joined and closed its
                                                    // descriptor
      ::usleep(1000);
    for (const std::string& node : nodeGroups()) {
      if (freeze(node + "/four")) ::_exit(0);  // nothing is cleared
    }
    return 4;
  }

  static bool removeSoon(Cgroup& group) {
    for (int i = 0; i < 500; ++i) {
      if (group.remove()) return true;
      ::usleep(2000);
    }
    return false;
  }

  std::unique_ptr<CgroupTree> tree_;
};

TEST_F(CgroupTest, CountsAndRefusesProcesses) {
  auto group = tree_->create("one", {uint64_t{64} << 20, 1000, 3});
  ASSERT_TRUE(group) << group.error().message;
  const Cloned child = startIn(**group, forkFive);
  while ((*group)->events().pids_refused < 3)
    ::usleep(1000);
  EXPECT_FALSE((*group)->remove()) << "removed with processes in it";
  (*group)->kill();
  EXPECT_TRUE(reapPidfd(child.pidfd.get()));
  EXPECT_TRUE(removeSoon(**group));
}

TEST_F(CgroupTest, TakesOtherLimits) {
  auto group = tree_->create("again", {uint64_t{64} << 20, 1000, 100});
  ASSERT_TRUE(group) << group.error().message;
  for (const uint64_t memory : {uint64_t{16} << 20, uint64_t{128} << 20})
    ASSERT_TRUE((*group)->limit({memory, 500, 3})) << memory;
  const Cloned child = startIn(**group, forkFive);
  while ((*group)->events().pids_refused < 3)
    ::usleep(1000);
  (*group)->kill();
  EXPECT_TRUE(reapPidfd(child.pidfd.get()));
  EXPECT_TRUE(removeSoon(**group));
}

TEST_F(CgroupTest, MeasuresProcessorTimeAndMemory) {
  auto group = tree_->create("two", {uint64_t{64} << 20, 1000, 3});
  ASSERT_TRUE(group) << group.error().message;
  const Cloned child = startIn(**group, [] {
    std::vector<char> block(8 << 20, 'x');
    volatile uint64_t sum = 0;
    while (::clock() < CLOCKS_PER_SEC / 20)
      sum = sum + static_cast<uint64_t>(block[sum % block.size()]);
  });
  EXPECT_TRUE(reapPidfd(child.pidfd.get()));
  const CgroupUsage usage = (*group)->usage();
  EXPECT_GT(usage.cpu_micros, 20'000U);
  if (usage.memory_peak > 0) EXPECT_GT(usage.memory_peak, 8U << 20);
  EXPECT_TRUE(removeSoon(**group));
}

TEST_F(CgroupTest, TellsOfMemoryThatRanOut) {
  auto group = tree_->create("three", {uint64_t{16} << 20, 1000, 3});
  ASSERT_TRUE(group) << group.error().message;
  const Cloned child = startIn(**group, [] {
    constexpr size_t kBytes = size_t{64} << 20;
    auto* block = static_cast<volatile char*>(::malloc(kBytes));
    for (size_t at = 0; at < kBytes; at += 4096)
      block[at] = 'x';
  });
  EXPECT_TRUE(reapPidfd(child.pidfd.get()));
  EXPECT_GE((*group)->events().oom_kills, 1U);
  if ((*group)->oomFd() >= 0) {
    pollfd told{(*group)->oomFd(), POLLIN, 0};
    EXPECT_EQ(::poll(&told, 1, 0), 1);
  }
  EXPECT_TRUE(removeSoon(**group));
}

TEST_F(CgroupTest, APartIsCountedAndKilledByItself) {
  auto group = tree_->create("whole", {uint64_t{64} << 20, 1000, 10});
  ASSERT_TRUE(group) << group.error().message;
  auto part = (*group)->split("part");
  ASSERT_TRUE(part) << part.error().message;
  const Cloned beside = startIn(**group, [] { ::pause(); });
  const Cloned inside = startIn(**part, [] {
    while (::clock() < CLOCKS_PER_SEC / 20) {
    }
    forkFive();
  });
  while ((*part)->usage().cpu_micros < 50'000)
    ::usleep(1000);
  EXPECT_FALSE((*part)->empty());
  (*part)->kill();
  EXPECT_TRUE(reapPidfd(inside.pidfd.get()));
  EXPECT_TRUE(removeSoon(**part));
  EXPECT_FALSE((*group)->empty()) << "the one beside it was killed too";
  (*group)->kill();
  EXPECT_TRUE(reapPidfd(beside.pidfd.get()));
  EXPECT_TRUE(removeSoon(**group));
}

TEST_F(CgroupTest, APartIsFrozenAgainstItsOwnSignalsAndGoesOn) {
  auto group = tree_->create("whole", {uint64_t{64} << 20, 1000, 10});
  ASSERT_TRUE(group) << group.error().message;
  auto part = (*group)->split("part");
  ASSERT_TRUE(part) << part.error().message;
  if (!(*part)->canFreeze()) return;  // before Linux 5.2, or v1 without its freezer
  const Cloned child = startIn(**part, [] {
    for (;;) {
    }
  });
  const auto until = base::monotonicNow() + std::chrono::seconds(10);
  while ((*part)->usage().cpu_micros == 0 && base::monotonicNow() < until)
    ::usleep(1000);
  if ((*part)->usage().cpu_micros == 0) {
    (*part)->kill();
    EXPECT_TRUE(reapPidfd(child.pidfd.get()));
    EXPECT_TRUE(removeSoon(**part) && removeSoon(**group));
    return;  // v1 with a freezer but without cpuacct: no counter shows the process running
  }
  Result<bool> frozen = false;
  while (frozen && !*frozen)
    frozen = (*part)->freeze();
  ASSERT_TRUE(frozen) << frozen.error().message;
  ::kill(child.pid, SIGCONT);
  const uint64_t used = (*part)->usage().cpu_micros;
  ::usleep(20'000);
  EXPECT_EQ((*part)->usage().cpu_micros, used);
  (*part)->thaw();
  while ((*part)->usage().cpu_micros == used)
    ::usleep(1000);
  while (frozen && !*(frozen = (*part)->freeze())) {
  }
  (*part)->kill();
  EXPECT_TRUE(reapPidfd(child.pidfd.get())) << "what is frozen can be killed";
  (*part)->thaw();
  EXPECT_TRUE(removeSoon(**part));
  EXPECT_TRUE(removeSoon(**group));
}

TEST_F(CgroupTest, AGroupWithinHasLimitsOfItsOwnBesideTheWholes) {
  auto group = tree_->create("outer", {uint64_t{64} << 20, 1000, 10});
  ASSERT_TRUE(group) << group.error().message;
  const Cloned beside = startIn(**group, [] { ::pause(); });
  auto inner = (*group)->within("inner", {uint64_t{16} << 20, 1000, 3});
  ASSERT_TRUE(inner) << inner.error().message;
  const Cloned many = startIn(**inner, forkFive);
  while ((*inner)->events().pids_refused < 3)
    ::usleep(1000);
  (*inner)->kill();
  EXPECT_TRUE(reapPidfd(many.pidfd.get()));
  const Cloned large = startIn(**inner, [] {
    constexpr size_t kBytes = size_t{32} << 20;
    auto* block = static_cast<volatile char*>(::malloc(kBytes));
    for (size_t at = 0; at < kBytes; at += 4096)
      block[at] = 'x';
  });
  EXPECT_TRUE(reapPidfd(large.pidfd.get()));
  EXPECT_GE((*inner)->events().oom_kills, 1U);
  EXPECT_FALSE((*group)->empty()) << "the one beside it was killed too";
  EXPECT_GE((*group)->usage().memory_peak, uint64_t{15} << 20) << "it is not counted in the whole";
  auto second = (*group)->within("second", {uint64_t{64} << 20, 1000, 50});
  ASSERT_TRUE(second) << second.error().message;
  const Cloned more = startIn(**second, [] {
    for (int i = 0; i < 12 && ::fork() != 0; ++i) {
    }
    for (;;)
      ::pause();
  });
  while ((*group)->events().pids_refused + (*second)->events().pids_refused == 0)
    ::usleep(1000);
  (*second)->kill();
  EXPECT_TRUE(reapPidfd(more.pidfd.get()));
  EXPECT_TRUE(removeSoon(**second));
  EXPECT_TRUE(removeSoon(**inner));
  (*group)->kill();
  EXPECT_TRUE(reapPidfd(beside.pidfd.get()));
  EXPECT_TRUE(removeSoon(**group));
}

// As a node killed while ending a sandbox: the sandbox's group and its parts are frozen.
TEST_F(CgroupTest, SweepsWhatADeadNodeLeft) {
  tree_.reset();
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  ASSERT_EQ(nodeGroups(), std::set<std::string>());
  ASSERT_EQ(inChild([this] { return leaveFrozen(); }), 0);
  const auto left = nodeGroups();
  ASSERT_FALSE(left.empty());
  auto next = CgroupTree::open("cloister-unit");
  ASSERT_TRUE(next) << next.error().message;
  int status = 0;
  ASSERT_GT(::waitpid(-1, &status, 0), 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  for (const std::string& node : left)
    EXPECT_NE(::access(node.c_str(), F_OK), 0) << node;
}

TEST_F(CgroupTest, SaysWhatItWrites) {
  const auto values = tree_->values({12'345'678, 1500, 7});
  const auto has = [&](std::string_view file, std::string_view value) {
    for (const CgroupValue& v : values) {
      if (v.file == file && v.value == value) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("pids.max", "7"));
  if (tree_->version() == "v1") {
    EXPECT_TRUE(has("memory.limit_in_bytes", "12345678"));
    EXPECT_TRUE(has("cpu.cfs_quota_us", "150000"));
  } else {
    EXPECT_TRUE(has("memory.max", "12345678"));
    EXPECT_TRUE(has("cpu.max", "150000 100000"));
  }
}

}  // namespace
}  // namespace cloister::linux

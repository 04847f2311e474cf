// SPDX-License-Identifier: Apache-2.0
// Credentials, mounts and Landlock, each on a child of its own.
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "base/file.h"
#include "linux/in_child.h"
#include "linux/landlock.h"
#include "linux/mounts.h"
#include "linux/users.h"

namespace cloister::linux {
namespace {

bool statusHas(std::string_view text) {
  return base::readFile("/proc/self/status").value_or(std::string()).contains(text);
}

TEST(Credentials, DroppedCapabilitiesAreGoneFromEverySet) {
  EXPECT_EQ(inChild([] {
              if (!dropCapabilities()) return 1;
              for (const char* set : {"CapPrm", "CapEff", "CapInh", "CapAmb"}) {
                if (!statusHas(std::string(set) + ":\t0000000000000000")) return 2;
              }
              return ::geteuid() != 0 || statusHas("CapBnd:\t0000000000000000") ? 0 : 3;
            }),
            0);
}

TEST(Credentials, DropToGivesUpRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(inChild([] {
              if (!dropTo(54'321, 54'322)) return 1;
              if (!statusHas("Uid:\t54321\t54321\t54321\t54321")) return 2;
              if (!statusHas("Gid:\t54322\t54322\t54322\t54322")) return 3;
              if (!statusHas("CapBnd:\t0000000000000000") || !statusHas("NoNewPrivs:\t1")) return 4;
              return ::setuid(0) == -1 && ::open("/etc/shadow", O_RDONLY | O_CLOEXEC) == -1 ? 0 : 5;
            }),
            0);
}

TEST(Credentials, FindsUsers) {
  const auto root = findUser("root");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->uid, 0U);
  EXPECT_FALSE(findUser("no-such-user"));
}

TEST(Credentials, MapsAChildsIds) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  auto child = cloneProcess(CLONE_NEWUSER);
  ASSERT_TRUE(child) << child.error().message;
  if (child->pid == 0) {
    for (;;)
      ::pause();
  }
  const IdMap map{1000, 700'000, 16};
  EXPECT_TRUE(writeIdMaps(child->pid, {&map, 1}, false));
  const auto text = base::readFile("/proc/" + std::to_string(child->pid) + "/gid_map");
  EXPECT_EQ(text.value_or(""), "      1000     700000         16\n");
  EXPECT_TRUE(signalPidfd(child->pidfd.get(), SIGKILL));
  EXPECT_TRUE(reapPidfd(child->pidfd.get()));
}

// The owner of a newly made user namespace; ioctl_nsfs(2).
uid_t ownerOfNewNamespace() {
  auto child = cloneProcess(CLONE_NEWUSER);
  if (!child) return 0;
  if (child->pid == 0) {
    for (;;)
      ::pause();
  }
  const std::string path = "/proc/" + std::to_string(child->pid) + "/ns/user";
  const Fd space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  uid_t owner = 0;
  std::ignore = ::ioctl(space.get(), NS_GET_OWNER_UID, &owner);
  std::ignore = signalPidfd(child->pidfd.get(), SIGKILL);
  std::ignore = reapPidfd(child->pidfd.get());
  return owner;
}

std::string effectiveCapabilities() {
  const std::string status = base::readFile("/proc/self/status").value_or(std::string());
  return status.substr(status.find("CapEff:"),
                       std::string_view("CapEff:\t0123456789abcdef").size());
}

TEST(Credentials, MakesNamespacesThatAreAnothers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(inChild([] {
              const std::string all = effectiveCapabilities();
              const auto weak = [&] { return effectiveCapabilities() != all; };
              if (!dieWithParent()) return 1;
              OtherUser other;
              if (!other.become(54'321)) return 2;
              if (ownerOfNewNamespace() != 54'321) return 3;
              const Fd made(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
              struct stat status{};
              if (::fstat(made.get(), &status) != 0 || status.st_uid != 0 || weak()) return 4;
              if (!other.leave()) return 5;
              int signal = 0;
              if (::prctl(PR_GET_PDEATHSIG, &signal) != 0 || signal != SIGKILL) return 6;
              if (!statusHas("Uid:\t0\t0\t0\t0") || weak()) return 7;
              if (ownerOfNewNamespace() != 0) return 8;
              return ::prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == 0 ? 0 : 9;
            }),
            0);
}

TEST(Mounts, NamesAttributes) {
  EXPECT_EQ(attributeNames(kReadOnly | kNoSuid | kNoDev), "ro,nosuid,nodev");
  EXPECT_EQ(attributeNames(0), "");
}

TEST(Mounts, ATmpfsIsBoundedAndBinds) {
  const int code = inNamespaces([] {
    if (!makePrivate() || ::chdir("/tmp") != 0) return 1;
    const auto mount = newFilesystem("tmpfs", "mine", {{"size", "64k"}, {"mode", "700"}}, kNoDev);
    if (!mount || !attachMount(mount->get(), "/tmp") || ::chdir("/tmp") != 0) return 2;
    const auto info = base::readFile("/proc/self/mountinfo").value_or(std::string());
    if (!info.contains(" - tmpfs mine rw,size=64k,mode=700")) return 3;
    if (::mkdir("a", 0700) != 0 || ::mkdir("b", 0700) != 0 || ::mkdir("a/in", 0700) != 0) return 4;
    if (!bindMount("a", "b") || ::access("b/in", F_OK) != 0) return 5;
    const auto copy = cloneMount("a");
    if (!copy || !addAttributes(copy->get(), kReadOnly) || !attachMount(copy->get(), "a")) return 6;
    if (::mkdir("a/more", 0700) == 0) return 7;
    return ::umount2("a", MNT_DETACH) == 0 && ::mkdir("a/more", 0700) == 0 ? 0 : 8;
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(Mounts, SaysWhatTheKernelRefused) {
  const int code = inNamespaces([] {
    const auto mount = newFilesystem("tmpfs", "mine", {{"nonsense", "1"}}, 0);
    return !mount && mount.error().message.contains("nonsense") ? 0 : 1;
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(Landlock, RefusesWhatNoRuleNames) {
  const int abi = landlockAbi();
  if (abi == 0) GTEST_SKIP() << "this kernel has no Landlock";
  char scratch[] = "/tmp/cloister-landlock-XXXXXX";
  ASSERT_NE(::mkdtemp(scratch), nullptr);
  const std::string inside = std::string(scratch) + "/in";
  const std::string outside = std::string(scratch) + "-out";
  EXPECT_EQ(inChild([&] {
              if (!setNoNewPrivs()) return 1;
              const std::vector<LandlockRule> rules = {{"/", LandlockAccess::kReadExecute},
                                                       {scratch, LandlockAccess::kScratch},
                                                       {"/dev/null", LandlockAccess::kWriteDevice}};
              if (!restrictWithLandlock(abi, rules)) return 2;
              if (::open(inside.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0) return 3;
              if (::open(outside.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0) return 4;
              if (::open("/dev/null", O_WRONLY | O_CLOEXEC) < 0) return 5;
              return ::open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 6;
            }),
            0);
  ::unlink(inside.c_str());
  ::unlink(outside.c_str());
  ::rmdir(scratch);
}

TEST(Landlock, NamesTheFileItCannotOpen) {
  if (landlockAbi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const auto done = restrictWithLandlock(1, {{"/nonexistent", LandlockAccess::kScratch}});
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().message.contains("/nonexistent"));
}

}  // namespace
}  // namespace cloister::linux

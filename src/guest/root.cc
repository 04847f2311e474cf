// SPDX-License-Identifier: Apache-2.0
#include "guest/root.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "guest/machine.h"
#include "guest/network.h"
#include "guest/walls.h"
#include "runner/share.h"
#include "wire/guest.h"

namespace cloister::guest {
namespace {

constexpr uid_t kUser = kSandboxUser;
constexpr unsigned long kSafe = MS_NOSUID | MS_NODEV;

void below(char (&path)[128], const char* name) {
  snprintf(path, sizeof path, "%s%s", kRoot, name);
}

void mountAt(const char* name, const char* type, unsigned long flags, const char* options) {
  char target[128];
  below(target, name);
  if (mount(type, target, type, flags, options) != 0) giveUp(target);
}

void makeDirectory(const char* path, mode_t mode) {
  if (mkdir(path, mode) != 0 || chmod(path, mode) != 0) giveUp(path);
}

void makeDevices() {
  struct Device {
    const char* name;
    unsigned minor;
  };
  mountAt("/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=64,mode=755");
  for (const Device device : {Device{"null", 3}, Device{"zero", 5}, Device{"full", 7},
                              Device{"random", 8}, Device{"urandom", 9}}) {
    char path[128];
    snprintf(path, sizeof path, "%s/dev/%s", kRoot, device.name);
    if (mknod(path, S_IFCHR, makedev(1, device.minor)) != 0 || chmod(path, 0666) != 0) {
      giveUp(path);
    }
  }
  constexpr const char* kLinks[][2] = {{"/dev/fd", "/proc/self/fd"},
                                       {"/dev/stdin", "/proc/self/fd/0"},
                                       {"/dev/stdout", "/proc/self/fd/1"},
                                       {"/dev/stderr", "/proc/self/fd/2"},
                                       {"/dev/ptmx", "pts/ptmx"}};
  for (const auto& [name, to] : kLinks) {
    char path[128];
    below(path, name);
    if (symlink(to, path) != 0) giveUp(path);
  }
  for (const char* name : {"/dev/shm", "/dev/pts"}) {
    char path[128];
    below(path, name);
    makeDirectory(path, 0755);
  }
  mountAt("/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=666,mode=620");
  char dev[128];
  below(dev, "/dev");
  if (mount(nullptr, dev, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC,
            nullptr) != 0) {
    giveUp("sealing /dev");
  }
}

struct Place {
  const char* name;  // in the shared file system
  const char* target;
  mode_t mode;
  uid_t owner;
};
constexpr Place kPlaces[] = {{"workspace", "/workspace", 0755, kUser},
                             {"home", "/home/user", 0755, kUser},
                             {"tmp", "/tmp", 01777, 0},
                             {"shm", "/dev/shm", 01777, 0}};

// With kWritesNone, programs run as another user than the owner of all four.
Place placed(const Place& place) {
  if (parameter(wire::guest::kWrites) != kWritesNone) return place;
  return {place.name, place.target, 0755, kUser};
}

unsigned long scratchFlags() {
  return kSafe | (parameter(wire::guest::kNoExec) != 0 ? MS_NOEXEC : 0);
}

// An image made by an earlier version may lack /home/user: an empty file system covers the image's
// /home then. An image without /home has no place for one, and its programs have no home.
void makeHome() {
  char home[128];
  below(home, "/home/user");
  if (access(home, F_OK) == 0) return;
  char above[128];
  below(above, "/home");
  if (access(above, F_OK) != 0) return;
  mountAt("/home", "tmpfs", kSafe | MS_NOEXEC, "size=4k,nr_inodes=4,mode=755");
  makeDirectory(home, 0755);
}

// Makes a bounded file system for all writable directories.
void makeScratch() {
  const unsigned long flags = scratchFlags();
  char options[128];
  snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=755",
           static_cast<unsigned long long>(parameter(wire::guest::kScratch)),
           static_cast<unsigned long long>(parameter(wire::guest::kInodes)));
  if (mount("tmpfs", kScratchPlace, "tmpfs", flags, options) != 0) giveUp("making the workspace");
  for (const Place& each : kPlaces) {
    const Place place = placed(each);
    char from[128];
    char target[128];
    snprintf(from, sizeof from, "%s/%s", kScratchPlace, place.name);
    below(target, place.target);
    if (access(target, F_OK) != 0) continue;  // only a home may be missing: makeHome()
    makeDirectory(from, place.mode);
    if (chown(from, place.owner, place.owner) != 0) giveUp(from);
    if (mount(from, target, nullptr, MS_BIND, nullptr) != 0 ||
        mount(nullptr, target, nullptr, MS_REMOUNT | MS_BIND | flags, nullptr) != 0) {
      giveUp(target);
    }
  }
}

bool shares() {
  return parameter(wire::guest::kShares) != 0;
}

Fd namespaceOf(const char* process) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/ns/mnt", process);
  Fd found(open(path, O_RDONLY | O_CLOEXEC));
  if (!found) giveUp(path);
  return found;
}

// Mounts the first sandbox's workspace, which only its mount namespace has, over this sandbox's.
// Programs there cannot replace the workspace: the directory is a mount in a root that is a mount.
void takeWorkspace(pid_t first) {
  constexpr unsigned kClone = 1;          // OPEN_TREE_CLONE (open_tree(2))
  constexpr unsigned kTheDescriptor = 4;  // MOVE_MOUNT_F_EMPTY_PATH (move_mount(2))
  char number[16];
  snprintf(number, sizeof number, "%d", static_cast<int>(first));
  const Fd own = namespaceOf("self");
  const Fd other = namespaceOf(number);
  if (setns(other.get(), CLONE_NEWNS) != 0) giveUp("entering the first sandbox");
  const Fd mount(static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, "/workspace", kClone | static_cast<unsigned>(O_CLOEXEC))));
  if (!mount) giveUp("opening the workspace");
  if (setns(own.get(), CLONE_NEWNS) != 0) giveUp("leaving the first sandbox");
  char target[128];
  below(target, "/workspace");
  if (syscall(SYS_move_mount, mount.get(), "", AT_FDCWD, target, kTheDescriptor) != 0) {
    giveUp("sharing the workspace");
  }
}

bool isKept(const char* entry) {
  if (entry[0] == '.' || (entry[0] >= '0' && entry[0] <= '9')) return true;
  for (const char* kept : {"cpuinfo", "filesystems", "loadavg", "meminfo", "mounts", "net", "self",
                           "stat", "sys", "thread-self", "uptime", "version"}) {
    if (strcmp(entry, kept) == 0) return true;
  }
  return false;
}

// Covers entries of the machine's /proc that are not for programs, as on a host: by an empty file
// or directory without permissions.
void coverProc() {
  char proc[128];
  below(proc, "/proc");
  DIR* listing = opendir(proc);
  if (listing == nullptr) giveUp(proc);
  while (const dirent* entry = readdir(listing)) {
    if (isKept(entry->d_name) || entry->d_type == DT_LNK) continue;
    char path[128 + NAME_MAX];
    snprintf(path, sizeof path, "%s/%s", proc, entry->d_name);
    const char* cover = entry->d_type == DT_DIR ? kMaskDirectory : kMaskFile;
    if (mount(cover, path, nullptr, MS_BIND, nullptr) != 0) giveUp(path);
  }
  closedir(listing);
}

unsigned processorsOf() {
  return static_cast<unsigned>(parameter(wire::guest::kCpus));
}

void show(const char* root, unsigned cpus, uint64_t memory) {
  if (!runner::showShare(root, cpus, memory)) giveUp("showing the sandbox's share");
}

// pivot_root(2) cannot replace the initial RAM file system. File systems beneath the new root are
// out of reach without the right to mount.
void enterImage(bool within) {
  if (hasNetwork() && !within) showNameServer();
  mountAt("/proc", "proc", kSafe | MS_NOEXEC, nullptr);
  coverProc();
  // The machine has more memory than its programs may use, and no more processors.
  show(kRoot, within ? processorsOf() : 0, parameter(wire::guest::kMemory));
  putUpWalls();
  if (chdir(kRoot) != 0 || mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || chroot(".") != 0 ||
      chdir("/") != 0) {
    giveUp("entering the image");
  }
}

// gVisor cannot mount the same file system in several places, so each tmpfs gets the bound.
void coverScratch() {
  for (const Place& each : kPlaces) {
    if (shares() && &each == kPlaces) continue;
    const Place place = placed(each);
    char options[128];
    snprintf(options, sizeof options, "size=%llu,mode=%o,uid=%u,gid=%u",
             static_cast<unsigned long long>(parameter(wire::guest::kScratch)), place.mode,
             place.owner, place.owner);
    if (mount("tmpfs", place.target, "tmpfs", scratchFlags(), options) != 0) giveUp(place.target);
  }
}

void mountOver(const char* target, const char* type, unsigned long flags, const char* options) {
  if (mount(type, target, type, flags, options) != 0) giveUp(target);
}

}  // namespace

void enterRoot(const Ground& ground, bool within, pid_t first) {
  if (ground.machine) {
    makeDevices();
    makeHome();
    makeScratch();
    if (within && shares()) takeWorkspace(first);
    return enterImage(within);
  }
  mountOver("/proc", "proc", kSafe | MS_NOEXEC, nullptr);
  // runsc was told the memory of the first (become_gvisor.cc).
  show("", processorsOf(), within ? parameter(wire::guest::kMemory) : 0);
  if (!within) return;
  // gVisor has a single devpts for all mounts, with the terminals of all users: mount none.
  mountOver("/dev/pts", "tmpfs", kSafe | MS_NOEXEC | MS_RDONLY, "mode=755");
  coverScratch();
}

}  // namespace cloister::guest

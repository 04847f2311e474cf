// SPDX-License-Identifier: Apache-2.0
#include "guest/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/machine.h"
#include "guest/walls.h"
#include "runner/filter.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::guest {
namespace {

constexpr uid_t kUser = 1000;
constexpr char kGroup[] = "/cgroup/sandbox";
constexpr char kTop[] = "/cgroup/cgroup.subtree_control";
constexpr char kScratchPlace[] = "/run/scratch";
constexpr unsigned long kSafe = MS_NOSUID | MS_NODEV;
constexpr int kSocketFd = wire::kRunnerFd;
constexpr int kProgramFd = kSocketFd + 1;

void put(int directory, const char* name, const char* text) {
  const Fd file(openat(directory, name, O_WRONLY | O_CLOEXEC));
  const auto size = static_cast<ssize_t>(strlen(text));
  if (!file || write(file.get(), text, strlen(text)) != size) giveUp(name);
}

void putNumber(int directory, const char* name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(value));
  put(directory, name, text);
}

// The number behind `key` in a file of lines "key number", or the file's only one; 0 if it is not.
uint64_t numberIn(const Fd& file, const char* key) {
  char text[1024];
  const ssize_t n = file ? pread(file.get(), text, sizeof text - 1, 0) : 0;
  text[n > 0 ? n : 0] = '\0';
  const char* at = text;
  for (const size_t length = strlen(key); length > 0 && at != nullptr;) {
    if (strncmp(at, key, length) == 0 && at[length] == ' ') {
      at += length;
      break;
    }
    at = strchr(at, '\n');
    if (at != nullptr) ++at;
  }
  return at != nullptr ? strtoull(at, nullptr, 10) : 0;
}

// --- the root's file system

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

// One bounded file system behind all that is writable.
void makeScratch() {
  const unsigned long flags = kSafe | (parameter(wire::guest::kNoExec) != 0 ? MS_NOEXEC : 0);
  char options[128];
  snprintf(options, sizeof options, "size=%llu,nr_inodes=%llu,mode=755",
           static_cast<unsigned long long>(parameter(wire::guest::kScratch)),
           static_cast<unsigned long long>(parameter(wire::guest::kInodes)));
  makeDirectory(kScratchPlace, 0755);
  if (mount("tmpfs", kScratchPlace, "tmpfs", flags, options) != 0) giveUp("making the workspace");
  struct Place {
    const char* name;
    const char* target;
    mode_t mode;
    uid_t owner;
  };
  for (const Place place : {Place{"workspace", "/workspace", 0755, kUser},
                            Place{"tmp", "/tmp", 01777, 0}, Place{"shm", "/dev/shm", 01777, 0}}) {
    char from[128];
    char target[128];
    snprintf(from, sizeof from, "%s/%s", kScratchPlace, place.name);
    below(target, place.target);
    makeDirectory(from, place.mode);
    if (chown(from, place.owner, place.owner) != 0) giveUp(from);
    if (mount(from, target, nullptr, MS_BIND, nullptr) != 0 ||
        mount(nullptr, target, nullptr, MS_REMOUNT | MS_BIND | flags, nullptr) != 0) {
      giveUp(target);
    }
  }
}

// --- the runner's process

void bringLoopbackUp() {
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!any || ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) giveUp("bringing up lo");
}

bool isKept(const char* entry) {
  if (entry[0] == '.' || (entry[0] >= '0' && entry[0] <= '9')) return true;
  for (const char* kept : {"cpuinfo", "filesystems", "loadavg", "meminfo", "mounts", "net", "self",
                           "stat", "sys", "thread-self", "uptime", "version"}) {
    if (strcmp(entry, kept) == 0) return true;
  }
  return false;
}

// What of the machine's /proc is not for programs is covered, as it is of a host's: an empty file
// or directory that nobody may open.
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

// pivot_root(2) does not take the initial RAM file system; what is beneath the new root afterwards
// is out of reach for one who may not mount.
void enterRoot() {
  mountAt("/proc", "proc", kSafe | MS_NOEXEC, nullptr);
  coverProc();
  putUpWalls();
  if (chdir(kRoot) != 0 || mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || chroot(".") != 0 ||
      chdir("/") != 0) {
    giveUp("entering the image");
  }
}

// RESOURCE:VALUE,...
void limitResources() {
  const char* at = getenv(wire::guest::kLimits);
  while (at != nullptr && *at != '\0') {
    char* end = nullptr;
    const auto resource = static_cast<int>(strtol(at, &end, 10));
    if (*end != ':') powerOff("malformed limits");
    const rlim_t value = strtoull(end + 1, &end, 10);
    const rlimit limit{value, value};
    if (setrlimit(resource, &limit) != 0) giveUp("setrlimit");
    at = *end == ',' ? end + 1 : nullptr;
  }
}

void becomeNobody() {
  for (int each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
    if (prctl(PR_CAPBSET_DROP, each, 0, 0, 0) != 0) giveUp("dropping capabilities");
  }
  if (syscall(SYS_setgroups, 0, nullptr) != 0 || setresgid(kUser, kUser, kUser) != 0 ||
      setresuid(kUser, kUser, kUser) != 0) {
    giveUp("becoming nobody");
  }
}

[[noreturn]] void becomeRunner(const Fd& theirs) {
  const Fd program(open(wire::guest::kRunner, O_RDONLY | O_CLOEXEC));
  const Fd console(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!program || !console) giveUp("opening the runner");
  for (int fd = 0; fd < 3; ++fd) {
    if (dup2(console.get(), fd) != fd) giveUp("dup2");
  }
  const int high = fcntl(program.get(), F_DUPFD_CLOEXEC, 64);
  if (dup2(theirs.get(), kSocketFd) != kSocketFd || high < 0 ||
      dup3(high, kProgramFd, O_CLOEXEC) != kProgramFd ||
      syscall(SYS_close_range, kProgramFd + 1U, ~0U, 0U) != 0) {
    giveUp("arranging descriptors");
  }
  bringLoopbackUp();
  if (sethostname("cloister", 8) != 0) giveUp("sethostname");
  const Fd filter(open(wire::guest::kFilter, O_RDONLY | O_CLOEXEC));
  enterRoot();
  limitResources();
  becomeNobody();
  if (!runner::enterFilter(filter.get())) _exit(1);
  char name[] = "cloister-runner";
  char* argv[] = {name, nullptr};
  char* envp[] = {nullptr};
  syscall(SYS_execveat, kProgramFd, "", argv, envp, 0x1000 /* AT_EMPTY_PATH */);
  _exit(1);
}

}  // namespace

Fd Sandbox::look(const char* name) const {
  Fd file(openat(group_.get(), name, O_RDONLY | O_CLOEXEC));
  if (!file) giveUp(name);
  return file;
}

void Sandbox::makeGroup() {
  const Fd top(open(kTop, O_WRONLY | O_CLOEXEC));
  if (!top || write(top.get(), "+memory +pids", 13) != 13) giveUp("handing controllers on");
  makeDirectory(kGroup, 0755);
  group_.reset(open(kGroup, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
  if (!group_) giveUp(kGroup);
  putNumber(group_.get(), "memory.max", parameter(wire::guest::kMemory));
  putNumber(group_.get(), "pids.max", parameter(wire::guest::kPids));
  memory_events_ = look("memory.events");
  memory_peak_ = look("memory.peak");
  pids_events_ = look("pids.events");
}

void Sandbox::start() {
  makeGroup();
  // Programs reserve more than they use, and the machine is hardly larger than what they may use.
  put(AT_FDCWD, "/proc/sys/vm/overcommit_memory", "1");
  makeDevices();
  makeScratch();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) giveUp("socketpair");
  socket_.reset(ends[0]);
  const Fd theirs(ends[1]);
  constexpr unsigned long kNew =
      CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  const long child = syscall(SYS_clone, kNew | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child < 0) giveUp("making the runner's process");
  if (child > 0) return;
  put(group_.get(), "cgroup.procs", "0");
  if (unshare(CLONE_NEWCGROUP) != 0) giveUp("unshare");
  setsid();
  signal(SIGCHLD, SIG_DFL);
  becomeRunner(theirs);
}

Counts Sandbox::counts() const {
  return {.memory_peak = numberIn(memory_peak_, ""),
          .killed = numberIn(memory_events_, "oom_kill"),
          .refused = numberIn(pids_events_, "max")};
}

}  // namespace cloister::guest

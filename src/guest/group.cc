// SPDX-License-Identifier: Apache-2.0
#include "guest/group.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/machine.h"
#include "wire/guest.h"

namespace cloister::guest {
namespace {

constexpr char kTop[] = "/cgroup";
constexpr char kFirst[] = "/cgroup/sandbox";
constexpr char kFirstOwn[] = "/cgroup/sandbox/own";
constexpr useconds_t kPause = 1'000;
constexpr int kLooks = 2'000;

void join(char (&path)[96], const char* directory, const char* name) {
  snprintf(path, sizeof path, "%s/%s", directory, name);
}

void put(const char* directory, const char* name, const char* text) {
  char path[96];
  join(path, directory, name);
  writeText(path, text);
}

void putNumber(const char* directory, const char* name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(value));
  put(directory, name, text);
}

Fd look(const char* directory, const char* name) {
  char path[96];
  join(path, directory, name);
  Fd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) giveUp(path);
  return file;
}

// None where the kernel has no such file.
Fd lookIfThere(const char* directory, const char* name) {
  char path[96];
  join(path, directory, name);
  return Fd(open(path, O_RDONLY | O_CLOEXEC));
}

void makeDirectory(const char* path) {
  if (mkdir(path, 0755) != 0) giveUp(path);
}

// The number after `key` in a file of lines "key number", or the file's only number; 0 if absent.
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

}  // namespace

void Group::make(unsigned number) {
  if (number == 0) {
    put(kTop, "cgroup.subtree_control", "+memory +pids");
    strcpy(path_, kFirst);
  } else {
    snprintf(path_, sizeof path_, "%s/within-%u", kFirst, number);
  }
  makeDirectory(path_);
  const char* own = path_;
  if (number == 0) {
    put(kFirst, "cgroup.subtree_control", "+memory +pids");
    makeDirectory(kFirstOwn);
    own = kFirstOwn;
    whole_pids_events_ = lookIfThere(kFirst, "pids.events.local");
  }
  // Set limits after making the files inside, which would otherwise be charged to the group.
  putNumber(path_, "memory.max", parameter(wire::guest::kMemory));
  putNumber(path_, "pids.max", parameter(wire::guest::kPids));
  memory_peak_ = look(path_, "memory.peak");
  memory_events_ = look(own, "memory.events");
  pids_events_ = look(own, "pids.events");
  own_.reset(open(own, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
  if (!own_) giveUp(own);
}

void Group::enter() const {
  const Fd file(openat(own_.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
  if (!file || write(file.get(), "0", 1) != 1) giveUp("joining a control group");
  if (unshare(CLONE_NEWCGROUP) != 0) giveUp("unshare");
}

void Group::remove() {
  for (int look = 0; rmdir(path_) != 0 && errno == EBUSY && look < kLooks; ++look)
    usleep(kPause);
}

// pids.events counts refusals in the group of the fork; since Linux 6.11 in the group of the limit,
// including its descendants.
Counts Group::counts() const {
  return {.memory_peak = numberIn(memory_peak_, ""),
          .killed = numberIn(memory_events_, "oom_kill"),
          .refused = numberIn(pids_events_, "max") + numberIn(whole_pids_events_, "max")};
}

}  // namespace cloister::guest

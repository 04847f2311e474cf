// SPDX-License-Identifier: Apache-2.0
#include "runner/kill_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"

namespace cloister::runner {
namespace {

constexpr size_t kMaxProcesses = 4096;
constexpr int kMaxRounds = 64;  // each finds one that was not there before

struct Process {
  pid_t pid;
  pid_t parent;
  pid_t session;
  char state;
  bool doomed;
};

struct Table {
  Process rows[kMaxProcesses];
  size_t count = 0;

  [[nodiscard]] bool dooms(pid_t pid) const {
    return std::any_of(rows, rows + count,
                       [pid](const Process& row) { return row.pid == pid && row.doomed; });
  }
};

Table table;

// pid (name) state parent group session …; the name may hold anything but ends with the last ')'.
bool readProcess(const char* pid, Process& process) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t n = fd ? read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return false;
  text[n] = '\0';
  const char* name_end = strrchr(text, ')');
  int group = 0;
  process.doomed = false;
  process.pid = atoi(pid);
  return name_end != nullptr && sscanf(name_end + 1, " %c %d %d %d", &process.state,
                                       &process.parent, &group, &process.session) == 4;
}

void readProcesses() {
  alignas(dirent64) static char buffer[32'768];
  table.count = 0;
  const Fd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (ssize_t n; (n = syscall(SYS_getdents64, proc.get(), buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < n && table.count < kMaxProcesses;) {
      const auto* item = reinterpret_cast<const dirent64*>(buffer + at);
      at += item->d_reclen;
      const bool is_process = item->d_name[0] >= '1' && item->d_name[0] <= '9';
      if (is_process && readProcess(item->d_name, table.rows[table.count])) ++table.count;
    }
  }
}

void doom(pid_t leader) {
  for (bool more = true; std::exchange(more, false);) {
    for (size_t i = 0; i < table.count; ++i) {
      Process& row = table.rows[i];
      if (row.doomed || row.pid <= 1) continue;
      row.doomed = row.pid == leader || row.session == leader || table.dooms(row.parent);
      more = more || row.doomed;
    }
  }
}

// Sends it to the doomed; returns how many of them still ran.
size_t signalDoomed(int signal) {
  size_t running = 0;
  for (size_t i = 0; i < table.count; ++i) {
    const Process& row = table.rows[i];
    if (!row.doomed) continue;
    if (!std::string_view("TtZX").contains(row.state)) ++running;
    kill(row.pid, signal);
  }
  return running;
}

}  // namespace

void killTree(pid_t leader) {
  for (int round = 0; round < kMaxRounds; ++round) {
    readProcesses();
    doom(leader);
    if (signalDoomed(SIGSTOP) == 0) break;
  }
  signalDoomed(SIGKILL);
}

}  // namespace cloister::runner

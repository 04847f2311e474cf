// SPDX-License-Identifier: Apache-2.0
#include "runner/processes.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"

namespace cloister::runner {
namespace {

// pid (name) state parent group session …; the name may hold anything but ends with the last ')'.
bool readProcess(const char* pid, Process& process) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return false;
  text[n] = '\0';
  const char* name_end = strrchr(text, ')');
  int group = 0;
  process.doomed = false;
  process.pid = atoi(pid);
  return name_end != nullptr && sscanf(name_end + 1, " %c %d %d %d", &process.state,
                                       &process.parent, &group, &process.session) == 4;
}

}  // namespace

void ProcessTable::read() {
  alignas(dirent64) static char buffer[32'768];
  count = vanished = 0;
  const Fd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (ssize_t n; (n = syscall(SYS_getdents64, proc.get(), buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < n && count < kMax;) {
      const auto* item = reinterpret_cast<const dirent64*>(buffer + at);
      at += item->d_reclen;
      const bool is_process = item->d_name[0] >= '1' && item->d_name[0] <= '9';
      if (!is_process) continue;
      ++(readProcess(item->d_name, rows[count]) ? count : vanished);
    }
  }
}

}  // namespace cloister::runner

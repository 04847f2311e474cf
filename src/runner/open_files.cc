// SPDX-License-Identifier: Apache-2.0
#include "runner/open_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/fd.h"
#include "runner/processes.h"

namespace cloister::runner {
namespace {

constexpr int64_t kFirstPause = 5;      // ms
constexpr int64_t kLongestPause = 500;  // ms
// A look takes some microseconds for each process, during which no output is forwarded.
constexpr size_t kMostLookedAt = 64;

ProcessTable table;

int64_t nowMillis() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

// Entries of an open directory, but for "." and "..".
uint32_t countEntries(int directory) {
  alignas(dirent64) static char buffer[32'768];
  uint32_t found = 0;
  for (ssize_t n; (n = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < n;) {
      const auto* item = reinterpret_cast<const dirent64*>(buffer + at);
      at += item->d_reclen;
      if (item->d_name[0] != '.') ++found;
    }
  }
  return found;
}

// Field 11 of its stat: page faults of reaped children, which each child has.
bool hasWaited(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return true;
  text[n] = '\0';
  const char* name_end = strrchr(text, ')');
  unsigned long long faults = 0;
  return name_end == nullptr ||
         sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %llu", &faults) != 1 || faults > 0;
}

}  // namespace

uint32_t openFilesOf(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  const Fd fds(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status{};
  if (!fds || fstat(fds.get(), &status) != 0) return 0;
  // Linux 6.2 and later give the number without a listing.
  return status.st_size > 0 ? static_cast<uint32_t>(status.st_size) : countEntries(fds.get());
}

uint32_t fileTableOf(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return 0;
  text[n] = '\0';
  // The program may call itself anything, but for a line's end.
  constexpr char kName[] = "\nFDSize:";
  const char* line = strstr(text, kName);
  return line == nullptr ? 0 : static_cast<uint32_t>(strtoul(line + sizeof kName - 1, nullptr, 10));
}

bool saysTooManyFiles(std::string_view output) {
  return output.contains("oo many open files") || output.contains("EMFILE");
}

uint32_t tableIfAlone(pid_t pid) {
  table.read();
  size_t in_session = 0;
  for (size_t i = 0; i < table.count; ++i)
    in_session += table.rows[i].session == pid && !table.rows[i].ended() ? 1 : 0;
  return in_session == 1 && !hasWaited(pid) ? fileTableOf(pid) : 0;
}

void LookTimer::restart() {
  pause_ms_ = kFirstPause;
  at_ms_ = nowMillis() + pause_ms_;
}

int LookTimer::untilDue() const {
  return static_cast<int>(std::clamp<int64_t>(at_ms_ - nowMillis(), 0, kLongestPause));
}

bool LookTimer::due() {
  const int64_t now = nowMillis();
  if (now < at_ms_) return false;
  pause_ms_ = std::min(2 * pause_ms_, kLongestPause);
  at_ms_ = now + pause_ms_;
  return true;
}

void lookAtOpenFiles(Channel* channels, size_t count) {
  table.read();
  size_t looked_at = 0;
  for (size_t i = 0; i < table.count && looked_at < kMostLookedAt; ++i) {
    const Process& process = table.rows[i];
    auto* const of = std::find_if(channels, channels + count, [&](const Channel& channel) {
      return channel.watched() && channel.pid == process.session;
    });
    if (of == channels + count) continue;
    of->sawOpenFiles(openFilesOf(process.pid));
    ++looked_at;
  }
}

}  // namespace cloister::runner

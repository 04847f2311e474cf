// SPDX-License-Identifier: Apache-2.0
#include "guest/resident.h"

#include <fcntl.h>
#include <unistd.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

namespace cloister::guest {
namespace {

using Name = char[64];

bool namespaceOf(const char* process, Name& name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%.16s/ns/pid", process);
  const ssize_t n = readlink(path, name, sizeof name - 1);
  name[n > 0 ? n : 0] = '\0';
  return n > 0;
}

// The second number of proc(5)'s statm, in pages.
uint64_t residentPages(const char* process) {
  char path[64];
  char text[128];
  snprintf(path, sizeof path, "/proc/%.16s/statm", process);
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t n = file ? read(file.get(), text, sizeof text - 1) : 0;
  text[n > 0 ? n : 0] = '\0';
  const char* space = strchr(text, ' ');
  return space != nullptr ? strtoull(space + 1, nullptr, 10) : 0;
}

}  // namespace

uint64_t residentBytes(pid_t first) {
  char number[16];
  Name theirs;
  Name name;
  snprintf(number, sizeof number, "%d", first);
  if (!namespaceOf(number, theirs)) return 0;
  DIR* listing = opendir("/proc");
  if (listing == nullptr) return 0;
  uint64_t pages = 0;
  while (const dirent* entry = readdir(listing)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (namespaceOf(entry->d_name, name) && strcmp(name, theirs) == 0) {
      pages += residentPages(entry->d_name);
    }
  }
  closedir(listing);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace cloister::guest

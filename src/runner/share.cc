// SPDX-License-Identifier: Apache-2.0
#include "runner/share.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

namespace cloister::runner {
namespace {

constexpr size_t kMost = 256 << 10;  // limit of a shortened file; the rest is left out
constexpr unsigned long kSafe = MS_NOSUID | MS_NODEV | MS_NOEXEC;
constexpr char kSysCpu[] = "/sys/devices/system/cpu";
char the_text[kMost];

struct Path {
  char text[128];
  Path(const char* root, const char* rest) { snprintf(text, sizeof text, "%s%s", root, rest); }
};

unsigned available() {
  cpu_set_t have;
  if (sched_getaffinity(0, sizeof have, &have) != 0) return 0;
  return static_cast<unsigned>(CPU_COUNT(&have));
}

// Into the_text.
bool readText(const char* path, size_t& size) {
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  ssize_t n = 0;
  for (size = 0; size < kMost; size += static_cast<size_t>(n)) {
    n = read(file.get(), the_text + size, kMost - size);
    if (n <= 0) break;
  }
  return n >= 0;
}

bool writeNew(const char* path, const char* text, size_t size) {
  const Fd file(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  return file && write(file.get(), text, size) == static_cast<ssize_t>(size) &&
         fchmod(file.get(), 0444) == 0;
}

bool newMemory(const char* at) {
  return mount("tmpfs", at, "tmpfs", kSafe, "size=524288,mode=755") == 0;
}

bool seal(const char* at) {
  return mount(nullptr, at, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kSafe, nullptr) == 0;
}

// A file of /proc; `place` has room for another.
bool cover(const char* root, const char* place, const char* name, const char* text, size_t size) {
  const Path from(place, name);
  const Path proc(root, "/proc");
  const Path to(proc.text, name);
  return writeNew(from.text, text, size) &&
         mount(from.text, to.text, nullptr, MS_BIND, nullptr) == 0 && seal(to.text);
}

// Each processor has a paragraph.
void cutCpuinfo(unsigned cpus, size_t& size) {
  char* at = the_text;
  for (char* const end = the_text + size; at < end && cpus > 0; --cpus) {
    auto* const gap = static_cast<char*>(memmem(at, static_cast<size_t>(end - at), "\n\n", 2));
    at = gap == nullptr ? end : gap + 2;
  }
  size = static_cast<size_t>(at - the_text);
}

// Each processor has a line, "cpu7 …".
void cutStat(unsigned cpus, size_t& size) {
  char* to = the_text;
  char* const end = the_text + size;
  for (char* at = the_text; at < end;) {
    auto* const stop = static_cast<char*>(memchr(at, '\n', static_cast<size_t>(end - at)));
    char* const next = stop == nullptr ? end : stop + 1;
    const bool is_one = next - at > 4 && memcmp(at, "cpu", 3) == 0 && at[3] >= '0' && at[3] <= '9';
    if (!is_one || strtoul(at + 3, nullptr, 10) < cpus) {
      memmove(to, at, static_cast<size_t>(next - at));
      to += next - at;
    }
    at = next;
  }
  size = static_cast<size_t>(to - the_text);
}

bool coverCut(const char* root, const char* place, const char* name, unsigned cpus,
              void (*cut)(unsigned, size_t&)) {
  const Path proc(root, "/proc");
  const Path whole(proc.text, name);
  size_t size = 0;
  if (!readText(whole.text, size)) return false;
  cut(cpus, size);
  return cover(root, place, name, the_text, size);
}

bool coverMeminfo(const char* root, const char* place, uint64_t bytes) {
  size_t size = 0;
  const auto add = [&size](const char* name, uint64_t kilobytes) {
    size += static_cast<size_t>(snprintf(the_text + size, kMost - size, "%s: %llu kB\n", name,
                                         static_cast<unsigned long long>(kilobytes)));
  };
  for (const char* name : {"MemTotal", "MemFree", "MemAvailable"})
    add(name, bytes >> 10);
  for (const char* name :
       {"Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Dirty",
        "Writeback", "AnonPages", "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim"})
    add(name, 0);
  return cover(root, place, "/meminfo", the_text, size);
}

// Only gVisor's sandboxes have the directory.
bool coverSys(const char* root, unsigned cpus) {
  const Path to(root, kSysCpu);
  if (access(to.text, F_OK) != 0) return true;
  if (!newMemory(to.text)) return false;
  char range[16];
  const auto size = static_cast<size_t>(snprintf(range, sizeof range, "0-%u\n", cpus - 1));
  for (const char* name : {"/online", "/possible", "/present"}) {
    if (!writeNew(Path(to.text, name).text, range, size)) return false;
  }
  for (unsigned cpu = 0; cpu < cpus; ++cpu) {
    char name[16];
    snprintf(name, sizeof name, "/cpu%u", cpu);
    if (mkdir(Path(to.text, name).text, 0755) != 0) return false;
  }
  return seal(to.text);
}

}  // namespace

bool showShare(const char* root, unsigned cpus, uint64_t memory) {
  if (cpus >= available()) cpus = 0;
  if (cpus == 0 && memory == 0) return true;
  const Path place(root, "/workspace");
  if (!newMemory(place.text)) return false;
  if (cpus != 0 && (!coverCut(root, place.text, "/cpuinfo", cpus, cutCpuinfo) ||
                    !coverCut(root, place.text, "/stat", cpus, cutStat) || !coverSys(root, cpus))) {
    return false;
  }
  if (memory != 0 && !coverMeminfo(root, place.text, memory)) return false;
  return umount2(place.text, MNT_DETACH) == 0;
}

bool useProcessors(unsigned count, unsigned first) {
  const unsigned all = available();
  if (count == 0 || count >= all) return all != 0;
  cpu_set_t have;
  cpu_set_t chosen;
  if (sched_getaffinity(0, sizeof have, &have) != 0) return false;
  CPU_ZERO(&chosen);
  unsigned place = 0;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &have)) continue;
    if ((place++ + all - first % all) % all < count) CPU_SET(cpu, &chosen);
  }
  return sched_setaffinity(0, sizeof chosen, &chosen) == 0;
}

}  // namespace cloister::runner

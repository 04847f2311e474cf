// SPDX-License-Identifier: Apache-2.0
// The parts of the host's /proc that are covered in sandboxes.
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include <dirent.h>

#include "confine/mount_plan.h"

namespace cloister::runtime {
namespace {

// The entries of /proc that each sandbox keeps, besides its own processes.
constexpr std::string_view kProcKept[] = {"cpuinfo",     "filesystems", "loadavg", "meminfo",
                                          "mounts",      "net",         "self",    "stat",
                                          "thread-self", "uptime",      "version"};

}  // namespace

std::vector<MountStep> findProcMasks() {
  std::vector<MountStep> masks;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return masks;
  while (const dirent* entry = ::readdir(proc)) {
    const std::string_view name = entry->d_name;
    struct stat status{};
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0 || name[0] == '.' ||
        std::ranges::find(kProcKept, name) != std::end(kProcKept) ||
        ::fstatat(::dirfd(proc), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    const bool readable = (status.st_mode & 0007) != 0;  // the owner, root, is not mapped inside
    if (S_ISLNK(status.st_mode) || !readable) continue;
    const char* source = name == "sys"             ? kProcSys
                         : S_ISDIR(status.st_mode) ? kMaskDirectory
                                                   : kMaskFile;
    masks.push_back({.op = MountStep::Op::kMask,
                     .target = "proc/" + std::string(name),
                     .source = source,
                     .why = "tells about the host"});
  }
  ::closedir(proc);
  std::ranges::sort(masks, {}, &MountStep::target);
  return masks;
}

}  // namespace cloister::runtime

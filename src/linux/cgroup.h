// SPDX-License-Identifier: Apache-2.0
// Control groups, v1 (cgroups(7); Documentation/admin-guide/cgroup-v1) and v2 (cgroup-v2.rst),
// behind one small interface.
//
//   <own or root group>/<parent>/node-<random>/<sandbox>
//
// `parent` gets a low weight, so that sandboxes yield to everything else. The node's directory is
// held by a flock(2) on it: one whose lock is free belongs to no living process and is swept away.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "linux/proc_tree.h"

namespace cloister::linux {

struct CgroupLimits {
  uint64_t memory_bytes = 0;  // everything charged; swap gets nothing
  uint32_t cpu_millis = 0;    // thousandths of a core, on average over 100 ms
  uint32_t pids = 0;          // processes and threads

  friend bool operator==(const CgroupLimits&, const CgroupLimits&) = default;
};

struct CgroupUsage {
  uint64_t cpu_micros = 0;
  uint64_t memory_peak = 0;  // bytes; 0 where the kernel does not tell
  uint64_t memory_now = 0;   // likewise, charged at present
  uint32_t pids_peak = 0;    // 0 likewise
};

// What the kernel refused or killed so far.
struct CgroupEvents {
  uint64_t oom_kills = 0;
  uint64_t pids_refused = 0;
};

// A value to be written into a file of a group: what limits come down to, for --dry-run.
struct CgroupValue {
  std::string controller;
  std::string file;
  std::string value;
  bool optional = false;  // not every kernel has the file
};

// The group of one sandbox. Destroying it leaves the directories: remove() is explicit.
class Cgroup {
 public:
  virtual ~Cgroup() = default;
  // Files into which a single-threaded process writes "0" to move itself. Moving another process
  // instead waits for an RCU grace period, milliseconds.
  [[nodiscard]] virtual std::vector<int> joinFds() const = 0;
  // The directory for CLONE_INTO_CGROUP, which is cheaper; v2 only, otherwise -1. The kernel asks
  // whether the caller of clone3(2) may write there, not who opened it.
  [[nodiscard]] virtual int cloneFd() const { return -1; }
  // Readable when the group runs out of memory, before anything is killed; v1 only: on v2 the
  // kernel kills the whole group by itself. -1 if there is none.
  [[nodiscard]] virtual int oomFd() const { return -1; }
  // Changes its limits, whatever they were.
  virtual Result<> limit(const CgroupLimits& limits) = 0;
  // Changes that of processors alone.
  virtual Result<> limitCpu(uint32_t cpu_millis) = 0;
  [[nodiscard]] virtual CgroupUsage usage() const = 0;
  [[nodiscard]] virtual CgroupEvents events() const = 0;
  // With that of the groups split off, and, where countsWithin(), of those within, gone ones
  // included. v1 has what was not buffered; the rest is that of its processes now, and of the
  // children that they have waited for, so that it may become less.
  [[nodiscard]] virtual IoBytes io() const = 0;
  [[nodiscard]] virtual bool countsWithin() const = 0;
  // Opens what those two read, for as long as the group is held: each reading is one call then.
  virtual void openCounters() = 0;
  // Whether freeze() is possible here.
  [[nodiscard]] virtual bool canFreeze() const = 0;
  // Stops every process of the group, and whatever joins it, until thaw(). True once all are
  // stopped; false: ask again.
  virtual Result<bool> freeze() = 0;
  virtual void thaw() = 0;
  // Kills every process of the group, also while it forks: cgroup.kill, or frozen on v1.
  virtual void kill() = 0;
  // A group within this one, for some of its processes: they are counted and killed together. Its
  // only limits are this one's; it is to be removed before it. What runs out of memory is killed by
  // itself from then on, and no longer with all of this group.
  virtual Result<std::unique_ptr<Cgroup>> split(const std::string& name) = 0;
  // The same with limits of its own, of memory and processes, which hold beside this one's; of
  // processors it has what this one has. Only events() tell that its memory ran out.
  virtual Result<std::unique_ptr<Cgroup>> within(const std::string& name,
                                                 const CgroupLimits& limits) = 0;
  // No process is in it, not even one that is ending.
  [[nodiscard]] virtual bool empty() const = 0;
  // True when the group is gone, false while a process of it is still ending.
  virtual bool remove() = 0;
};

class CgroupTree {
 public:
  // Sweeps what dead nodes left, makes `parent` and this process's own group beneath it. On v2 it
  // may move the processes of its own group into a leaf, as the no-internal-process rule wants.
  // kUnsupported: nothing usable here, and why.
  static Result<std::unique_ptr<CgroupTree>> open(const std::string& parent);

  // Ends what is in the node's own groups, and removes them.
  virtual ~CgroupTree() = default;

  virtual Result<std::unique_ptr<Cgroup>> create(const std::string& name,
                                                 const CgroupLimits& limits) = 0;
  // What create() writes.
  [[nodiscard]] virtual std::vector<CgroupValue> values(const CgroupLimits& limits) const = 0;
  [[nodiscard]] virtual std::string_view version() const = 0;  // "v1", "v2"
  // Of memory, cpu, pids, what could not be had.
  [[nodiscard]] virtual std::vector<std::string> missing() const { return {}; }
};

// One line of /proc/self/mountinfo that is a cgroup mount.
struct CgroupMount {
  std::string path;
  std::string root;  // the group that is visible as `path`
  bool v2 = false;
  std::vector<std::string> controllers;  // v1
};
std::vector<CgroupMount> parseCgroupMounts(std::string_view mountinfo);
// The path of `controller` ("" for v2) in the text of /proc/PID/cgroup.
std::optional<std::string> findOwnGroup(std::string_view text, std::string_view controller);
// The directory of group `own` under `mount`; the mount's own when that is not visible in it.
std::string directoryOf(const CgroupMount& mount, const std::string& own);

}  // namespace cloister::linux

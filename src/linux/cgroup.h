// SPDX-License-Identifier: Apache-2.0
// Control groups, v1 (cgroups(7); Documentation/admin-guide/cgroup-v1) and v2 (cgroup-v2.rst),
// behind one small interface.
//
//   <own or root group>/<parent>/node-<random>/<sandbox>
//
// `parent` gets a low weight, so that sandboxes yield to everything else. The node holds a flock(2)
// on its directory. A directory whose lock is free belongs to no living process and is removed. Not
// thread-safe.
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
  uint64_t memory_peak = 0;  // bytes; 0 if unknown
  uint64_t memory_now = 0;   // bytes currently charged; 0 if unknown
  uint32_t pids_peak = 0;    // 0 if unknown
};

// Numbers of kills and refusals by the kernel so far.
struct CgroupEvents {
  uint64_t oom_kills = 0;
  uint64_t pids_refused = 0;
};

// A value for a file of a group, as derived from limits and shown by --dry-run.
struct CgroupValue {
  std::string controller;
  std::string file;
  std::string value;
  bool optional = false;  // not every kernel has the file
};

// The group of a sandbox. The destructor keeps the directories: call remove().
class Cgroup {
 public:
  virtual ~Cgroup() = default;
  // Files into which a single-threaded process writes "0" to move itself. Moving another process
  // instead waits for an RCU grace period, milliseconds.
  [[nodiscard]] virtual std::vector<int> joinFds() const = 0;
  // The directory for CLONE_INTO_CGROUP, which is cheaper; v2 only, otherwise -1. The kernel checks
  // the write permission of the caller of clone3(2), not of the opener.
  [[nodiscard]] virtual int cloneFd() const { return -1; }
  // Readable when the group runs out of memory, before anything is killed; v1 only: on v2 the
  // kernel kills the whole group by itself. -1 if there is none.
  [[nodiscard]] virtual int oomFd() const { return -1; }
  // Replaces all limits.
  virtual Result<> limit(const CgroupLimits& limits) = 0;
  // Replaces the processor limit only.
  virtual Result<> limitCpu(uint32_t cpu_millis) = 0;
  [[nodiscard]] virtual CgroupUsage usage() const = 0;
  [[nodiscard]] virtual CgroupEvents events() const = 0;
  // Traffic including split groups and, if countsWithin(), groups within, even after their removal.
  // v1 counts unbuffered traffic; the rest is the sum over current processes and their reaped
  // children, so the value may decrease.
  [[nodiscard]] virtual IoBytes io() const = 0;
  [[nodiscard]] virtual bool countsWithin() const = 0;
  // Keeps the files of usage() and io() open for the group's lifetime, so that a reading is a
  // single system call.
  virtual void openCounters() = 0;
  // Whether freeze() is possible here.
  [[nodiscard]] virtual bool canFreeze() const = 0;
  // Freezes all processes of the group, and later members, until thaw(). Returns true once all are
  // frozen; false: call again.
  virtual Result<bool> freeze() = 0;
  virtual void thaw() = 0;
  // Kills all processes of the group, even while forking: by cgroup.kill, or frozen on v1.
  virtual void kill() = 0;
  // Makes a child group that counts and kills some of the processes together. Only this group's
  // limits apply. Remove the child before this group. From now on an out-of-memory kill ends the
  // child alone, not the whole group.
  virtual Result<std::unique_ptr<Cgroup>> split(const std::string& name) = 0;
  // Like split(), with additional limits of memory and processes; processors are shared with this
  // group. Only events() reports that the child ran out of memory.
  virtual Result<std::unique_ptr<Cgroup>> within(const std::string& name,
                                                 const CgroupLimits& limits) = 0;
  // Whether the group has no process, including ending processes.
  [[nodiscard]] virtual bool empty() const = 0;
  // True when the group is gone, false while a process is still ending.
  virtual bool remove() = 0;
};

class CgroupTree {
 public:
  // Removes groups of dead nodes, makes `parent` and a group of this process beneath. On v2 the
  // processes of its own group may be moved into a leaf, as the no-internal-process rule requires.
  // kUnsupported: no usable cgroups, with the reason.
  static Result<std::unique_ptr<CgroupTree>> open(const std::string& parent);

  // Ends all processes in the node's own groups, and removes the groups.
  virtual ~CgroupTree() = default;

  virtual Result<std::unique_ptr<Cgroup>> create(const std::string& name,
                                                 const CgroupLimits& limits) = 0;
  // The values that create() writes.
  [[nodiscard]] virtual std::vector<CgroupValue> values(const CgroupLimits& limits) const = 0;
  [[nodiscard]] virtual std::string_view version() const = 0;  // "v1", "v2"
  // The unavailable controllers among memory, cpu and pids.
  [[nodiscard]] virtual std::vector<std::string> missing() const { return {}; }
};

// A cgroup mount in /proc/self/mountinfo.
struct CgroupMount {
  std::string path;
  std::string root;  // the group visible as `path`
  bool v2 = false;
  std::vector<std::string> controllers;  // v1
};
std::vector<CgroupMount> parseCgroupMounts(std::string_view mountinfo);
// The path of `controller` ("" for v2) in the text of /proc/PID/cgroup.
std::optional<std::string> findOwnGroup(std::string_view text, std::string_view controller);
// The directory of group `own` under `mount`; the mount's own directory if the group is not
// visible.
std::string directoryOf(const CgroupMount& mount, const std::string& own);

}  // namespace cloister::linux

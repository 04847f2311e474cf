// SPDX-License-Identifier: Apache-2.0
// The file system of a sandbox as data: a list of steps, printed by --dry-run and carried out by
// applyStep(). There are two lists. The spawner builds the root once by the first list. Each
// sandbox derives its own root by the second list and adds its own mounts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "linux/mounts.h"

namespace cloister::runtime {

// A file of /etc as shipped by its package (sandbox/host/shipped_etc.h).
struct ShippedFile {
  std::string path;  // such as "etc/fonts/fonts.conf"
  std::string content;
  int64_t modified = 0;  // seconds since 1970, since Python checks compiled code against its
                         // source's time

  static constexpr size_t kMaxBytes = size_t{1} << 20;  // for a single file
};

struct MountStep {
  enum class Op : uint8_t {
    kNew,        // a new file system of type `source`
    kBind,       // the mount at host path `source`, with `attributes` on top
    kTree,       // like kBind, including all mounts below
    kPlace,      // binds the directory or file `source` of the same tree
    kMask,       // like kPlace; nothing to do where the target does not exist
    kDirectory,  // mkdir with `mode`
    kFile,       // a file with `content` and `mode`
    kSymlink,    // to `source`
    kCopy,       // copies host path `source` as a whole, as data; skipped if missing
    kDevice,     // character device `major`:`minor`; binds the host's device where mknod is not
                 // allowed
    kSeal,       // mount_setattr: adds `attributes` to the mount
    kAttach,     // attaches the mount made elsewhere and open at `mount`
    kPivot,      // makes the new tree the root, and detaches the old root
  };
  Op op = Op::kDirectory;
  std::string target{};  // relative to the new root; "" is the root itself
  std::string source{};
  std::string_view why{};
  linux::MountOptions options{};
  uint64_t attributes = 0;
  mode_t mode = 0755;
  std::string content{};
  int64_t modified = 0;  // of kFile: seconds since 1970; 0: now
  unsigned major = 0;
  unsigned minor = 0;
  int mount = -1;
};

// The sources of a root.
struct RootSource {
  struct File {
    std::string name;
    std::string content;
  };
  std::string image_root;     // "" = the host's own, never `whole`
  bool layered = true;        // uses overlayfs, which hides the location of the files; else binds
  bool proc = true;           // a /proc of its own; some containers cannot have one
  bool whole = false;         // an imported image as a whole; else programs and their dependencies
  std::string layers{};       // path of the store of dependency layers; "": none
  std::vector<File> ahead{};  // files in /kAhead, for interpreters started before their code is
                              // known
  // For an image that is not `whole`: files that its packages have in /etc. Without known packages,
  // files that programs are known to need.
  std::optional<std::vector<ShippedFile>> etc{};
};
inline constexpr char kAhead[] = "run/ahead";
// Where the spawner's root has the store of dependency layers. No sandbox may enter the directory
// above, and a sandbox with a root of its own does not have it.
inline constexpr char kLayersHidden[] = "run/masked/hidden";
inline constexpr char kLayersMount[] = "run/masked/hidden/layers";
// An empty file system: overlayfs needs two lower layers when there is no upper layer.
inline constexpr char kEmptyLayer[] = "run/masked/layer";
// For an image that is not `whole`: configuration among its programs, hidden from sandboxes.
inline constexpr std::string_view kLocalConfiguration = "usr/local/etc";
// MountStep::why of the files of RootSource::etc, which are printed only as a count.
inline constexpr std::string_view kShipped = "as its package ships it";

// Steps that build the root, until the root is read-only and replaces the old root.
std::vector<MountStep> rootSteps(const RootSource& source);

// Steps for /proc and the covers within.
std::vector<MountStep> procSteps(const std::vector<MountStep>& masks);

// Steps that replace a layered `root` by the sandbox's own, followed by `proc`. The new root mounts
// the same layers through overlayfs once more, so that its files are no other sandbox's: a watch
// (inotify(7)) or a lock (flock(2)) reveals no other sandbox. Devices remain common. A root without
// layers cannot be copied so, and all sandboxes share it.
std::vector<MountStep> ownRootSteps(const std::vector<MountStep>& root,
                                    const std::vector<MountStep>& proc);

// Steps that let /proc show the sandbox's share of the machine: `memory` bytes and `cpus`
// processors. Zero, or more than kMostShownCpus processors, leaves the host's values. Apply before
// the scratch steps.
inline constexpr uint32_t kMostShownCpus = 16;
std::vector<MountStep> shareSteps(uint64_t memory, uint32_t cpus);
// The content of /proc/meminfo (proc_meminfo(5)) for a machine with `bytes` of memory, all free.
std::string meminfoOf(uint64_t bytes);

// Steps for the bounded tmpfs shared by /workspace, /home/user, /tmp and /dev/shm. `attributes`:
// besides nosuid and nodev.
std::vector<MountStep> scratchSteps(uint64_t bytes, uint64_t inodes, uint64_t attributes = 0);
// The same for a sandbox with its own disk (disks.h), whose mount is open at `mount`.
std::vector<MountStep> diskSteps(int mount);
// After either: the workspace of another sandbox, whose mount is open at `mount`, in place of its
// own.
MountStep sharedStep(int mount);

// Sources of masks in the spawner's root: an empty file and an empty directory, both without
// permissions.
inline constexpr char kMaskFile[] = "run/masked/file";
inline constexpr char kMaskDirectory[] = "run/masked/directory";
// Copies of the entries of /proc/sys that programs read.
inline constexpr char kProcSys[] = "run/masked/sys";

// One kMask step for each entry of the host's /proc that is global, readable by all, and not listed
// as needed by programs: unlisted entries are denied.
std::vector<MountStep> findProcMasks();

// Carries out a step. Relative paths are below the working directory, the new root.
Result<> applyStep(const MountStep& step);

// A line of --dry-run.
base::json::object toJsonObject(const MountStep& step);

}  // namespace cloister::runtime

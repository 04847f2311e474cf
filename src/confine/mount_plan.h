// SPDX-License-Identifier: Apache-2.0
// The file system of a sandbox as data: a list of steps, printed by --dry-run and carried out by
// applyStep(). Two lists: the root, built once by the spawner, and the steps by which each sandbox
// makes one of its own of it, and adds what it alone has.
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

// A file of /etc as its package ships it (sandbox/host/shipped_etc.h).
struct ShippedFile {
  std::string path;  // such as "etc/fonts/fonts.conf"
  std::string content;
  int64_t modified = 0;  // seconds since 1970: compiled Python is checked against it

  static constexpr size_t kMaxBytes = size_t{1} << 20;  // of one
};

struct MountStep {
  enum class Op : uint8_t {
    kNew,        // a new file system of type `source`
    kBind,       // the mount at host path `source`, with `attributes` on top
    kTree,       // the same with all that is mounted below it
    kPlace,      // the directory or file `source` of this very tree, again
    kMask,       // like kPlace; nothing to do where the target does not exist
    kDirectory,  // mkdir with `mode`
    kFile,       // a file with `content` and `mode`
    kSymlink,    // to `source`
    kCopy,       // host path `source`, whole, as data; nothing to do where it does not exist
    kDevice,     // character device `major`:`minor`; where it may not be made, the host's bound
    kSeal,       // mount_setattr: adds `attributes` to the mount
    kAttach,     // the mount that was made elsewhere and is open at `mount`
    kPivot,      // what was put together becomes the root, and the one before goes
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

// What a root is made of.
struct RootSource {
  struct File {
    std::string name;
    std::string content;
  };
  std::string image_root;  // "" = the host's own, never `whole`
  bool layered = true;     // through overlayfs, which hides where it lies; else binds
  bool whole = false;      // all of it, as an imported image is; else programs and what they need
  std::vector<File> ahead{};  // in /kAhead, for interpreters that are started ahead of their code
  // Of an image that is not `whole`, what its packages have in /etc; where it has none that are
  // known, what programs are known to need.
  std::optional<std::vector<ShippedFile>> etc{};
};
inline constexpr char kAhead[] = "run/ahead";
// Of an image that is not `whole`: among its programs, and no sandbox's.
inline constexpr std::string_view kLocalConfiguration = "usr/local/etc";
// MountStep::why of the files of RootSource::etc: those that are printed as their number alone.
inline constexpr std::string_view kShipped = "as its package ships it";

// The root, up to and including its becoming read-only and the only one.
std::vector<MountStep> rootSteps(const RootSource& source);

// /proc, and what is covered in it.
std::vector<MountStep> procSteps(const std::vector<MountStep>& masks);

// In place of a layered `root` one of the sandbox's own: the same layers, through overlayfs once
// more, whose files are no other sandbox's, so that a watch (inotify(7)) or a lock (flock(2)) on
// one tells of none. The devices remain common. Then `proc`. Of a root that is not layered nothing
// can be made, and all share it.
std::vector<MountStep> ownRootSteps(const std::vector<MountStep>& root,
                                    const std::vector<MountStep>& proc);

// What /proc says of the machine, as far as it is a sandbox's share: `memory` bytes (0: as it is),
// and that many processors (0, or more than kMostShownCpus: as it is). Before the scratch steps.
inline constexpr uint32_t kMostShownCpus = 16;
std::vector<MountStep> shareSteps(uint64_t memory, uint32_t cpus);
// The content of a /proc/meminfo (proc_meminfo(5)) of a machine with that much memory, all of it
// free.
std::string meminfoOf(uint64_t bytes);

// The one bounded tmpfs behind /workspace, /tmp and /dev/shm.
// `attributes`: besides nosuid and nodev.
std::vector<MountStep> scratchSteps(uint64_t bytes, uint64_t inodes, uint64_t attributes = 0);
// The same where they are on a disk of its own (disks.h), whose mount is open at `mount`.
std::vector<MountStep> diskSteps(int mount);
// After either: the workspace of another sandbox, whose mount is open at `mount`, in place of its
// own.
MountStep sharedStep(int mount);

// In the spawner's root, where masks come from: an empty file and an empty directory that nobody
// may open.
inline constexpr char kMaskFile[] = "run/masked/file";
inline constexpr char kMaskDirectory[] = "run/masked/directory";
// A copy of what of /proc/sys programs ask for.
inline constexpr char kProcSys[] = "run/masked/sys";

// One kMask step for everything in the host's /proc that is global, readable by all, and not on
// the list of what programs need: silence denies.
std::vector<MountStep> findProcMasks();

// Carries out one step; relative paths are below the working directory, the new root.
Result<> applyStep(const MountStep& step);

// One line of --dry-run.
base::json::object toJsonObject(const MountStep& step);

}  // namespace cloister::runtime

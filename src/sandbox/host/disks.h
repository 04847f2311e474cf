// SPDX-License-Identifier: Apache-2.0
// Disks: the workspaces of a node that are on disk, because the workspaces are larger than a
// sandbox's memory (linux/encrypted_disk.h). Each disk has a keeper (disk_keeper.h). The class
// counts the disks, up to a common bound; a disk counts until nothing of the disk is left. One
// thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/any_io_executor.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "model/limits.h"
#include "model/plan.h"
#include "runtime/runtime.h"
#include "sandbox/host/disk_keeper.h"

namespace cloister::runtime {

struct DiskConfig {
  std::string directory;  // directory of the disks' files; "": no disks
  uint64_t over_bytes = 0;
  uint64_t max_bytes = 0;
  uint64_t keep_free_bytes = 0;
};

// Weaknesses of a workspace on disk compared to memory, listed in the results.
inline constexpr char kWeakerOnDisk[] =
    "the workspace is on disk: contents and names are encrypted there, under a key that goes with "
    "it; sizes, times, modes and the number of files are not; how much it reads and writes is not "
    "bounded, and slows others on that disk";

class Disks;

// A sandbox's disk. Counts against the quota until end() returns. Destroying the object without
// end() leaves the cleanup to its keeper.
class Disk {
 public:
  Disk(std::shared_ptr<Disks> disks, DiskKeeper keeper, uint64_t bytes)
      : disks_(std::move(disks)), keeper_(std::move(keeper)), bytes_(bytes) {}

  // The detached mount of its file system (linux/mounts.h), until attached in the sandbox.
  [[nodiscard]] int mountFd() const { return mount_.get(); }
  void forgetMount() { mount_.reset(); }

  // Announces that the sandbox is being removed, so that requests for its space wait. Idempotent.
  void expectEnd();
  // Call once, after the sandbox's last process has ended. Destroys the disk and waits for
  // completion, without a time limit if the underlying disk does not answer.
  Task<void> end(boost::asio::any_io_executor executor);

 private:
  friend class Disks;
  // Waits until the disk is made, or failed. Returns the empty file system if newly made.
  Task<Result<Fd>> begin(boost::asio::any_io_executor executor);

  std::shared_ptr<Disks> disks_;
  DiskKeeper keeper_;
  uint64_t bytes_;
  Fd mount_;
  bool ending_ = false;
};

class Disks : public std::enable_shared_from_this<Disks> {
 public:
  // Checks the machine's support; makes no disk.
  static std::shared_ptr<Disks> open(DiskConfig config);

  // For `cloister doctor`, and for refused requests.
  [[nodiscard]] const model::Finding& finding() const { return finding_; }
  // Whether a sandbox with these limits has its workspace on disk.
  [[nodiscard]] bool isFor(const model::Limits& limits) const {
    return model::needsDisk(limits, config_.over_bytes);
  }

  // kUnsupported: not on this machine. kQuota: beyond the total quota; waits briefly only for
  // ending disks. kNoSpace: the disk is full.
  Task<Result<std::shared_ptr<Disk>>> make(boost::asio::any_io_executor executor,
                                           linux::DiskShape shape, linux::DiskOptions options);

 private:
  friend class Disk;
  explicit Disks(DiskConfig config) : config_(std::move(config)) {}
  [[nodiscard]] Task<Result<>> admit(boost::asio::any_io_executor executor, uint64_t bytes) const;
  [[nodiscard]] Result<> hasRoom(uint64_t bytes) const;
  [[nodiscard]] int formatOf(const linux::DiskShape& shape);
  void learn(const linux::DiskShape& shape, Fd format);

  DiskConfig config_;
  Fd directory_;
  model::Finding finding_;
  uint64_t in_use_ = 0;                                 // bytes
  size_t ending_ = 0;                                   // bytes of disks being removed
  std::list<std::pair<linux::DiskShape, Fd>> formats_;  // the last used first
};

}  // namespace cloister::runtime

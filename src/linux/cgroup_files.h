// SPDX-License-Identifier: Apache-2.0
// The common parts of both cgroup versions: directories of groups, their small files, and removal
// of leftovers. Internal to linux/.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "linux/cgroup.h"

namespace cloister::linux {

// A directory of a cgroup file system, by descriptor.
class GroupDir {
 public:
  GroupDir() = default;
  static Result<GroupDir> open(const std::string& path);
  // Makes the directory unless present.
  static Result<GroupDir> make(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool has(const char* file) const;
  [[nodiscard]] Result<std::string> read(const char* file) const;
  // Keeps a file open for later readings, if possible. `file` must be a literal.
  void keep(const char* file);
  // Writes the value with a single write(2), as these files require.
  [[nodiscard]] Result<> write(const char* file, std::string_view value) const;
  [[nodiscard]] Result<Fd> openFile(const char* file, int flags) const;
  // The number in `file`, or the number after `key` in a file of "key value" lines; 0 if absent.
  [[nodiscard]] uint64_t number(const char* file, std::string_view key = {}) const;
  [[nodiscard]] std::vector<pid_t> processes() const;
  // True when the directory is gone.
  bool remove();

 private:
  GroupDir(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  Fd fd_;
  std::vector<std::pair<std::string_view, Fd>> kept_;
};

bool contains(const std::vector<std::string>& names, std::string_view name);

// The sum of the numbers after `key` on the lines of an io.stat or blkio file.
uint64_t sumOf(std::string_view text, std::string_view key);

// Writes `values` whose controller is `controller` into `dir`.
Result<> applyValues(const GroupDir& dir, const std::vector<CgroupValue>& values,
                     std::string_view controller);

// Kills and removes every node-* directory of `parent` whose lock is free.
void sweepDeadNodes(const std::string& parent, bool v2);

// Removes a node's own directory with all children, and the shared parent unless another node uses
// the parent.
void removeNode(const GroupDir& dir, bool v2);

// Makes `parent`/`name` and takes its lock, held as long as the result.
Result<GroupDir> makeLocked(const std::string& parent, const std::string& name);

Result<std::unique_ptr<CgroupTree>> openV1(const std::vector<CgroupMount>& mounts,
                                           std::string_view own, const std::string& parent);
Result<std::unique_ptr<CgroupTree>> openV2(const CgroupMount& mount, std::string_view own,
                                           const std::string& parent);

}  // namespace cloister::linux

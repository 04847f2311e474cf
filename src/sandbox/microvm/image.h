// SPDX-License-Identifier: Apache-2.0
// The image of virtual machines (microvm.h), read once by the node, with what it adds to it.
// Immutable once opened; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "confine/microvm/devices.h"
#include "linux/seccomp.h"
#include "sandbox/microvm/microvm.h"

namespace cloister::runtime::microvm {

// What a node adds to each machine: file contents.
struct Tools {
  std::string guest;
  std::string runner;
  std::string filter;
  std::string walls_program;
};
Result<Tools> readTools(const MicrovmConfig& config);
// Those as the files of a directory that a VMM shows as the machine's first root (devices.h).
MoreFiles shownFiles(const Tools& tools, const std::string& walls);

struct Image {
  Fd kernel;  // sealed, as the next; which one it is depends on the VMM
  Fd initrd;
  std::string initrd_bytes;
  Tools tools;
  Fd disk;
  std::string digest;  // of the disk

  // The same kernel and guest, with another disk: the file `path`, whose content has that digest.
  [[nodiscard]] Result<Image> withDisk(const std::string& path,
                                       const std::string& its_digest) const;
  // The same with the kernel in the file `path`.
  [[nodiscard]] Result<Image> withKernel(const std::string& path) const;
  // Where it cannot be opened by a user of the host that is nobody: why not.
  [[nodiscard]] Result<> readableByAll() const;
  // For an agent with walls.
  [[nodiscard]] Result<Fd> initrdWith(const std::string& walls) const;
};

// None, for VMMs that show files: in the place of its files, empty ones.
Result<Image> noImage(const MicrovmConfig& config);

// Reads all of it but the kernel.
Result<Image> openImage(const MicrovmConfig& config);

Result<Fd> openWhole(const std::string& path);
// By which a change of a file is seen (linux/tree_digest.h); "" where it cannot be told.
std::string stampOf(const std::string& path);
// "sha256:..." of all that is in it.
Result<std::string> digestOf(const Fd& file);
// The same open file once more.
Result<Fd> another(const Fd& file);
std::string_view bytesOf(const std::vector<sock_filter>& filter);

}  // namespace cloister::runtime::microvm

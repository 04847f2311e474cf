// SPDX-License-Identifier: Apache-2.0
// The image of virtual machines (microvm.h) with the node's additions, read once by the node.
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

// The node's additions to each machine: file contents.
struct Tools {
  std::string guest;
  std::string runner;
  std::string filter;
  std::string walls_program;
};
Result<Tools> readTools(const MicrovmConfig& config);
// The same additions as files of the directory shown as the machine's first root (devices.h).
MoreFiles shownFiles(const Tools& tools, const std::string& walls);

struct Image {
  Fd kernel;  // sealed, as the next; depends on the VMM
  Fd initrd;
  std::string initrd_bytes;
  bool networked = false;  // has the modules of a network interface (wire::guest::kNetworkModules)
  Tools tools;
  Fd disk;
  std::string digest;  // of the disk

  // The same kernel and guest with another disk: the file `path`, whose content has digest
  // `its_digest`.
  [[nodiscard]] Result<Image> withDisk(const std::string& path,
                                       const std::string& its_digest) const;
  // The same with the kernel in the file `path`.
  [[nodiscard]] Result<Image> withKernel(const std::string& path) const;
  // An error if a user without privileges (nobody) cannot open the disk.
  [[nodiscard]] Result<> readableByAll() const;
  // The initrd for an agent with confinement rules.
  [[nodiscard]] Result<Fd> initrdWith(const std::string& walls) const;
};

// For VMMs that show files: empty files in place of the image's.
Result<Image> noImage(const MicrovmConfig& config);

// Reads the whole image except the kernel.
Result<Image> openImage(const MicrovmConfig& config);

Result<Fd> openWhole(const std::string& path);
// Changes whenever the file changes (linux/tree_digest.h); "" if unknown.
std::string stampOf(const std::string& path);
// "sha256:..." of the file's whole content.
Result<std::string> digestOf(const Fd& file);
// The same open file once more.
Result<Fd> another(const Fd& file);
std::string_view bytesOf(const std::vector<sock_filter>& filter);

}  // namespace cloister::runtime::microvm

// SPDX-License-Identifier: Apache-2.0
// An initial RAM file system, in the format of the kernel's documentation ("initramfs buffer
// format"): a cpio archive of the "newc" kind. Several archives in a row are one. Pure.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace cloister::runtime::microvm {

struct ArchiveFile {
  std::string name;  // relative
  mode_t mode = 0;   // with its type
  std::string_view content;
};

std::string makeArchive(const std::vector<ArchiveFile>& files);

// Whether the first archive in `bytes` has an entry with this name.
bool archiveHas(std::string_view bytes, std::string_view name);

}  // namespace cloister::runtime::microvm

// SPDX-License-Identifier: Apache-2.0
// The /etc files of packages, in the shipped form: matplotlibrc, mime.types, sitecustomize.py. A
// sandbox gets these files, because programs of the image need the files, and because no such file
// identifies the machine's owner. Files changed since, and files of no package, are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "confine/mount_plan.h"

namespace cloister::runtime {

// Bounds for all files together. Further files are left out.
inline constexpr size_t kMostShipped = 8192;
inline constexpr size_t kMostShippedBytes = size_t{8} << 20;

// The files of the image at `root` ("" is the host) readable by all and unchanged since dpkg (field
// Conffiles of /var/lib/dpkg/status, deb-conffiles(5)) or ucf (/var/lib/ucf/hashfile, ucf(1))
// installed them, sorted by path. nullopt without dpkg. Blocks for some milliseconds.
std::optional<std::vector<ShippedFile>> shippedEtc(const std::string& root);

// The paths below /etc named by these files, with the MD5 of the shipped content: "/etc/x", "0…f".
struct ShippedName {
  std::string path;
  std::string md5;
  friend bool operator==(const ShippedName&, const ShippedName&) = default;
};
std::vector<ShippedName> namesInDpkgStatus(std::string_view status);
std::vector<ShippedName> namesInUcfHashes(std::string_view hashes);

}  // namespace cloister::runtime

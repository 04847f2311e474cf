// SPDX-License-Identifier: Apache-2.0
// Bounds on the contents that an import may unpack. An import that exceeds a bound ends with an
// error that names the bound.
#pragma once

#include <cstddef>
#include <cstdint>

#include "linux/tree_digest.h"

namespace cloister::images {

struct Bounds {
  uint64_t bytes = uint64_t{16'384} << 20;  // images.max_mb: unpacked, of all layers together
  uint64_t files = 1'000'000;               // images.max_files: entries of all layers together
};

inline constexpr size_t kMaxPath = 4095;
inline constexpr size_t kMaxComponent = 255;
inline constexpr size_t kMaxDepth = linux::kMaxTreeDepth;
inline constexpr size_t kMaxLayers = 512;
inline constexpr size_t kMaxJson = size_t{4} << 20;  // of an index, a manifest or a config

}  // namespace cloister::images

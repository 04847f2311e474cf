// SPDX-License-Identifier: Apache-2.0
// Layout: a directory in OCI layout (OCI image specification 1.1) that a pull fills and an import
// reads. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::registry {

class Layout {
 public:
  // Makes the directory, which must not exist.
  static Result<Layout> make(std::string directory);

  // Writes a blob whose digest is known to be right.
  [[nodiscard]] Result<> add(const std::string& digest, std::string_view bytes) const;
  // A new file for a blob: its path.
  [[nodiscard]] std::string path(const std::string& digest) const;
  // Writes index.json, which names the manifest. The layout is complete afterwards.
  [[nodiscard]] Result<> finish(const std::string& manifest, uint64_t size,
                                std::string_view type) const;

 private:
  explicit Layout(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

}  // namespace cloister::registry

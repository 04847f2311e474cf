// SPDX-License-Identifier: Apache-2.0
#include "base/doc_dir.h"

#include <filesystem>

#include "base/file.h"

namespace cloister::base {

std::string docDir() {
  return std::filesystem::path(shareDir()).parent_path() / "doc" / "cloister";
}

}  // namespace cloister::base

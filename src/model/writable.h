// SPDX-License-Identifier: Apache-2.0
// The places where files of a sandbox can be changed at all, and the changes that a permission for
// some files allows programs. Without the heap, so that the runner can use this code.
#pragma once

#include <cstdint>
#include <string_view>

namespace cloister::model {

// The home directory of programs (HOME), separate from the workspace: settings and caches of
// programs are no results of a run.
inline constexpr std::string_view kHome = "/home/user";

// The directories whose files are served to clients. The first is the default.
struct FileRoot {
  std::string_view name;  // in requests
  std::string_view path;
};
inline constexpr FileRoot kFileRoots[] = {
    {"workspace", "/workspace"}, {"home", kHome}, {"tmp", "/tmp"}};

// The only directories of a sandbox with changeable files.
inline constexpr std::string_view kWritablePlaces[] = {"/workspace", kHome, "/tmp", "/dev/shm"};

// Bits. The kernel does not distinguish new from existing files: beneath a directory, the
// permission to write includes making files, and the permission to create includes writing existing
// files.
inline constexpr uint8_t kMayWrite = 1;
inline constexpr uint8_t kMayCreate = 2;
inline constexpr uint8_t kMayDelete = 4;  // beneath a directory only
inline constexpr uint8_t kMayAll = kMayWrite | kMayCreate | kMayDelete;

}  // namespace cloister::model

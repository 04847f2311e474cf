// SPDX-License-Identifier: Apache-2.0
// Directories read without the C library's streams, which allocate.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include <dirent.h>

namespace cloister::runner {

// Calls `each(name)` for each entry except `.` and `..`, until `each` returns an errno. Returns the
// errno, or the error of reading.
template <class Each>
int forEachEntry(int directory, Each each) {
  alignas(dirent64) char buffer[4096];
  for (ssize_t n; (n = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) != 0;) {
    if (n < 0) return errno;
    for (ssize_t at = 0; at < n;) {
      const auto* item = reinterpret_cast<const dirent64*>(buffer + at);
      at += item->d_reclen;
      const char* name = item->d_name;
      if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
      if (const int error = each(name); error != 0) return error;
    }
  }
  return 0;
}

// The same of a directory whose path is the first `length` bytes of `path`: calls `each(name,
// size)` with the path of the entry in the first `size` bytes there, or with 0 where that is too
// long.
template <size_t kMost, class Each>
int forEachPath(int directory, char (&path)[kMost], size_t length, Each each) {
  return forEachEntry(directory, [&](const char* name) {
    const size_t size = std::strlen(name);
    const size_t slash = length == 0 ? 0 : 1;
    if (length + slash + size >= kMost) return each(name, size_t{0});
    if (slash != 0) path[length] = '/';
    std::memcpy(path + length + slash, name, size);
    return each(name, length + slash + size);
  });
}

}  // namespace cloister::runner

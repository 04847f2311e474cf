// SPDX-License-Identifier: Apache-2.0
#include "images/names.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <tuple>

#include <dirent.h>

#include "base/fd.h"

namespace cloister::images {

Result<std::vector<std::string>> namesIn(int directory) {
  Fd own(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own) return failErrno("opening a directory");
  DIR* listing = ::fdopendir(own.get());
  if (listing == nullptr) return failErrno("listing a directory");
  std::ignore = own.release();  // closedir() closes the descriptor
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int error = errno;
  ::closedir(listing);
  if (error != 0) return failErrno("listing a directory", error);
  std::ranges::sort(names);
  return names;
}

}  // namespace cloister::images

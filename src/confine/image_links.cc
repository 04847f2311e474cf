// SPDX-License-Identifier: Apache-2.0
#include "confine/image_links.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <tuple>

#include <dirent.h>

#include "base/fd.h"
#include "linux/paths.h"

namespace cloister::runtime {
namespace {

constexpr std::string_view kDirectories[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                             "/usr/bin",        "/sbin",          "/bin"};

constexpr std::string_view kManyInOne[] = {"busybox", "toybox", "coreutils", "sbase-box"};

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

}  // namespace

bool isManyInOne(std::string_view name) {
  return std::ranges::find(kManyInOne, name) != std::end(kManyInOne);
}

std::vector<model::ProgramLink> programLinks(const std::string& image_root,
                                             std::span<const std::string> more) {
  const std::string root_path = image_root.empty() ? "/" : image_root;
  const Fd root(::open(root_path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::set<std::pair<std::string, std::string>> found;
  std::vector<std::string> directories(std::begin(kDirectories), std::end(kDirectories));
  directories.insert(directories.end(), more.begin(), more.end());
  for (const std::string& path : directories) {
    const Fd place = linux::findInRoot(root.get(), path, O_DIRECTORY);
    Fd readable(place ? ::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
    const std::unique_ptr<DIR, CloseDir> dir(readable ? ::fdopendir(readable.get()) : nullptr);
    if (!dir) continue;
    std::ignore = readable.release();
    while (const dirent* entry = ::readdir(dir.get())) {
      if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN) continue;
      const std::string name = entry->d_name;
      const Fd target = linux::findInRoot(root.get(), path + "/" + name);
      struct stat status{};
      if (!target || ::fstat(target.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      const std::string real = linux::nameOf(target.get());
      if (real.empty() || real == name || isManyInOne(real)) continue;
      if (found.size() < model::kMaxProgramLinks) found.emplace(name, real);
    }
  }
  std::vector<model::ProgramLink> links;
  for (const auto& [name, real] : found)
    links.push_back({name, real});
  return links;
}

}  // namespace cloister::runtime

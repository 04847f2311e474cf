// SPDX-License-Identifier: Apache-2.0
#include "linux/tree_digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <vector>

#include <dirent.h>

#include "base/fd.h"

namespace cloister::linux {
namespace {

Result<std::string> hashFile(int directory, const char* name) {
  const Fd fd(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failErrno(std::string("opening ") + name);
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  base::Sha256 hash;
  std::array<char, size_t{64} << 10> chunk;
  for (;;) {
    const ssize_t n = ::read(fd.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno(std::string("reading ") + name);
    if (n == 0) return hash.hex();
    hash.update({chunk.data(), static_cast<size_t>(n)});
  }
}

std::string number(int64_t value) {
  return std::to_string(value);
}

Result<std::vector<std::string>> namesIn(int fd, const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = ::fdopendir(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (dir == nullptr) return failErrno("listing " + path);
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(dir);
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string stampOf(const struct stat& status) {
  return number(static_cast<int64_t>(status.st_ino)) + "." + number(status.st_size) + "." +
         number(status.st_mtim.tv_sec) + "." + number(status.st_mtim.tv_nsec) + "." +
         number(status.st_ctim.tv_sec) + "." + number(status.st_ctim.tv_nsec);
}

TreeDigest::TreeDigest(Of of, std::string_view old_cache) : of_(of) {
  // Lines of "STAMP SHA256 PATH"; stale ones are simply not found.
  while (!old_cache.empty()) {
    const std::string_view line = old_cache.substr(0, old_cache.find('\n'));
    old_cache.remove_prefix(std::min(line.size() + 1, old_cache.size()));
    const size_t first = line.find(' ');
    if (first == std::string_view::npos || line.size() < first + 66) continue;
    old_.emplace(line.substr(first + 66), line.substr(0, first + 65));
  }
}

Result<> TreeDigest::add(const std::string& root, const std::string& name) {
  const std::string path = root + "/" + name;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failErrno("opening " + path);
  return directory(fd.get(), name, 0);
}

Result<> TreeDigest::addAll(int root) {
  // A descriptor of its own: where it is in the directory is no business of the caller's.
  const Fd fd(::openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return failErrno("opening a tree");
  return directory(fd.get(), "", 0);
}

Result<> TreeDigest::directory(int fd, const std::string& path, int depth) {
  if (depth > kMaxTreeDepth) {
    return fail(Code::kInternal, "digest: " + path + ": nested too deeply");
  }
  for (const std::string& name : TRY(namesIn(fd, path)))
    TRY(entry(fd, name.c_str(), path.empty() ? name : path + "/" + name, depth));
  return {};
}

Result<> TreeDigest::entry(int parent, const char* name, const std::string& path, int depth) {
  struct stat status{};
  // Removed between listing and looking: as if it had not been listed.
  if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
  const bool readable = of_ == Of::kEverything || (status.st_mode & S_IROTH) != 0;
  if (S_ISDIR(status.st_mode)) {
    line('d', status, "-", path);
    const bool open = of_ == Of::kEverything || (readable && (status.st_mode & S_IXOTH) != 0);
    const Fd fd(open ? ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : -1);
    if (fd) return directory(fd.get(), path, depth + 1);
    return of_ == Of::kEverything ? failErrno("opening " + path) : Result<>();
  }
  if (S_ISLNK(status.st_mode)) {
    char target[4096];
    const ssize_t n = ::readlinkat(parent, name, target, sizeof target);
    const std::string_view text(target, n > 0 ? static_cast<size_t>(n) : 0);
    line('l', status, base::sha256Hex(text), path);
  } else if (S_ISREG(status.st_mode)) {
    line('f', status, readable ? TRY(content(parent, name, path, status)) : "-", path);
  }
  return {};
}

Result<std::string> TreeDigest::content(int parent, const char* name, const std::string& path,
                                        const struct stat& status) {
  const std::string key = stampOf(status);
  const auto known = old_.find(path);
  std::string hash;
  if (known != old_.end() && known->second.starts_with(key + " ")) {
    hash = known->second.substr(key.size() + 1);
  } else {
    hash = TRY(hashFile(parent, name));
  }
  if (!path.contains('\n'))
    new_.append(key).append(" ").append(hash).append(" ").append(path) += '\n';
  return hash;
}

void TreeDigest::line(char type, const struct stat& status, std::string_view content,
                      const std::string& path) {
  char head[64];
  const int64_t size = type == 'd' ? 0 : status.st_size;
  const int n = std::snprintf(head, sizeof head, "%c %o %lld ", type, status.st_mode & 07777U,
                              static_cast<long long>(size));
  manifest_.update({head, static_cast<size_t>(n)});
  manifest_.update(content);
  manifest_.update(" ");
  manifest_.update(path);
  manifest_.update("\n");
}

}  // namespace cloister::linux

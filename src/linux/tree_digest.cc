// SPDX-License-Identifier: Apache-2.0
#include "linux/tree_digest.h"

#include <fcntl.h>
#include <sys/syscall.h>
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

// What is being read ahead of the hash: of all files, and of one.
constexpr size_t kFilesAhead = 128;
constexpr size_t kLinesAhead = 16'384;
constexpr uint64_t kBytesAhead = uint64_t{64} << 20;
constexpr off_t kFileAhead = off_t{4} << 20;

void readAhead(int fd, off_t from) {
  ::posix_fadvise(fd, from, kFileAhead, POSIX_FADV_WILLNEED);
}

// Nothing of the file is in memory: cachestat(2), since Linux 6.5. False where that cannot be told.
bool isUncached(int fd) {
  constexpr long kCachestat = 451;  // on every architecture; glibc 2.36 has no name for it
  struct {
    uint64_t offset = 0;
    uint64_t length = 0;  // to the end
  } range;
  struct {
    uint64_t cached = 0, dirty = 0, writeback = 0, evicted = 0, recently_evicted = 0;
  } pages;
  return ::syscall(kCachestat, fd, &range, &pages, 0U) == 0 && pages.cached == 0;
}

Result<std::string> hashFile(int fd, const std::string& path) {
  base::Sha256 hash;
  std::array<char, size_t{64} << 10> chunk;
  off_t done = 0;
  for (off_t asked = kFileAhead;;) {
    if (done + kFileAhead / 2 >= asked) {
      readAhead(fd, asked);  // of the end, none is asked for
      asked += kFileAhead;
    }
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("reading " + path);
    if (n == 0) return hash.hex();
    hash.update({chunk.data(), static_cast<size_t>(n)});
    done += n;
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
  TRY(directory(fd.get(), name, 0));
  return settleAll();
}

Result<> TreeDigest::addAll(int root) {
  // A descriptor of its own: where it is in the directory is no business of the caller's.
  const Fd fd(::openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return failErrno("opening a tree");
  TRY(directory(fd.get(), "", 0));
  return settleAll();
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
  Line line{.type = 'd',
            .mode = status.st_mode & 07777U,
            .size = status.st_size,
            .content = "-",
            .path = path,
            .unread = {},
            .uncached = false,
            .stamp = {}};
  if (S_ISDIR(status.st_mode)) {
    line.size = 0;
    TRY(put(std::move(line)));
    const bool open = of_ == Of::kEverything || (readable && (status.st_mode & S_IXOTH) != 0);
    const Fd fd(open ? ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : -1);
    if (fd) return directory(fd.get(), path, depth + 1);
    return of_ == Of::kEverything ? failErrno("opening " + path) : Result<>();
  }
  if (S_ISLNK(status.st_mode)) {
    char target[4096];
    const ssize_t n = ::readlinkat(parent, name, target, sizeof target);
    line.type = 'l';
    line.content = base::sha256Hex({target, n > 0 ? static_cast<size_t>(n) : 0});
    return put(std::move(line));
  }
  if (!S_ISREG(status.st_mode)) return {};
  line.type = 'f';
  if (readable) TRY(find(parent, name, stampOf(status), line));
  return put(std::move(line));
}

// Its content, or where that is to be read.
Result<> TreeDigest::find(int parent, const char* name, std::string stamp, Line& line) {
  const auto known = old_.find(line.path);
  if (known != old_.end() && known->second.starts_with(stamp + " ")) {
    line.content = known->second.substr(stamp.size() + 1);
  } else {
    line.unread = Fd(::openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!line.unread) return failErrno("opening " + line.path);
    line.uncached = isUncached(line.unread.get());
    readAhead(line.unread.get(), 0);
  }
  line.stamp = std::move(stamp);
  return {};
}

Result<> TreeDigest::put(Line line) {
  if (line.unread) {
    ++files_ahead_;
    bytes_ahead_ += ahead(line);
  }
  lines_.push_back(std::move(line));
  const auto full = [this] {
    return files_ahead_ > kFilesAhead || bytes_ahead_ > kBytesAhead || lines_.size() > kLinesAhead;
  };
  while (!lines_.empty() && (!lines_.front().unread || full()))
    TRY(settleFirst());
  return {};
}

Result<> TreeDigest::settleFirst() {
  Line line = std::move(lines_.front());
  lines_.pop_front();
  if (line.unread) {
    --files_ahead_;
    bytes_ahead_ -= ahead(line);
    line.content = TRY(hashFile(line.unread.get(), line.path));
    // Gigabytes that nobody asks for soon would push out of memory what is used, and it is quicker
    // to read into the same pages again than into ever more.
    if (line.uncached) ::posix_fadvise(line.unread.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  if (!line.stamp.empty() && !line.path.contains('\n')) {
    new_.append(line.stamp).append(" ").append(line.content).append(" ").append(line.path) += '\n';
  }
  char head[64];
  const int n = std::snprintf(head, sizeof head, "%c %o %lld ", line.type, line.mode,
                              static_cast<long long>(line.size));
  manifest_.update({head, static_cast<size_t>(n)});
  manifest_.update(line.content);
  manifest_.update(" ");
  manifest_.update(line.path);
  manifest_.update("\n");
  if (line.unread && on_read_) on_read_();
  return {};
}

Result<> TreeDigest::settleAll() {
  while (!lines_.empty())
    TRY(settleFirst());
  return {};
}

// Of what is read ahead of the hash, how much is of this file.
uint64_t TreeDigest::ahead(const Line& line) {
  return std::min<uint64_t>(static_cast<uint64_t>(line.size), kFileAhead);
}

}  // namespace cloister::linux

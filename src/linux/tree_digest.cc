// SPDX-License-Identifier: Apache-2.0
#include "linux/tree_digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include <dirent.h>

#include "base/clock.h"
#include "base/fd.h"

namespace cloister::linux {
namespace {

// Bounds of reading ahead of the hash: for all files, and for a single file.
constexpr size_t kFilesAhead = 128;
constexpr size_t kLinesAhead = 16'384;
constexpr uint64_t kBytesAhead = uint64_t{64} << 20;

std::string number(int64_t value) {
  return std::to_string(value);
}

int64_t changeOf(const struct stat& status) {
  return int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec;
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

TreeDigest::TreeDigest(Of of, std::string old_cache, TreeWalk how)
    : of_(of),
      old_(std::move(old_cache)),
      begun_(base::wallMicros() * 1000),
      since_(how.since != 0 ? how.since : begun_),
      closed_(std::move(how.closed)),
      hashes_(how.threads) {}

TreeDigest::~TreeDigest() = default;

Result<> TreeDigest::add(const std::string& root, const std::string& name) {
  const std::string path = root + "/" + name;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return failErrno("opening " + path);
  noteChange(status, name);
  TRY(directory(fd.get(), name, 0));
  return settleAll();
}

Result<> TreeDigest::addAll(int root) {
  // A separate descriptor, since reading must not move the caller's directory offset.
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
  // Removed after listing: as if never listed.
  if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
  const bool young = noteChange(status, path);
  const bool readable = of_ == Of::kEverything || (status.st_mode & S_IROTH) != 0;
  Line line{.type = 'd',
            .mode = status.st_mode & 07777U,
            .size = status.st_size,
            .content = "-",
            .path = path,
            .unread = {},
            .stamp = {},
            .young = young};
  if (S_ISDIR(status.st_mode)) {
    line.size = 0;
    TRY(put(std::move(line)));
    if (path == closed_) return {};
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
  ++seen_.files;
  if (readable && !TRY(find(parent, name, stampOf(status), line))) return {};
  return put(std::move(line));
}

// True if the file may change again under the same stamp. A stamp in the future is from before the
// clock was set, and has no meaning.
bool TreeDigest::noteChange(const struct stat& status, const std::string& path) {
  const int64_t at = changeOf(status);
  if (at <= seen_.newest && at < since_ && at < begun_ - kSettled) return false;
  if (at > base::wallMicros() * 1000 + kSettled) return false;
  if (at > seen_.newest) {
    seen_.newest = at;
    seen_.newest_path = path;
  }
  if (at >= since_) nameChanged(path);
  return at >= begun_ - kSettled;
}

void TreeDigest::nameChanged(const std::string& path) {
  auto& names = seen_.changed;
  if (names.size() < TreeSeen::kMostNamed && std::ranges::find(names, path) == names.end()) {
    names.push_back(path);
  }
}

namespace {

// A line of a cache: "STAMP SHA256 PATH".
struct CacheLine {
  std::string_view head;  // STAMP SHA256
  std::string_view path;
  size_t end;  // start of the next
};

std::optional<CacheLine> lineAt(std::string_view cache, size_t at) {
  const std::string_view line = cache.substr(at, cache.find('\n', at) - at);
  const size_t first = line.find(' ');
  if (first == std::string_view::npos || line.size() < first + 66) return std::nullopt;
  return CacheLine{line.substr(0, first + 65), line.substr(first + 66),
                   std::min(at + line.size() + 1, cache.size())};
}

// The first line of each path counts.
std::unordered_map<std::string_view, size_t> indexOf(std::string_view cache) {
  std::unordered_map<std::string_view, size_t> index;
  index.reserve(cache.size() / 128);
  for (size_t at = 0; at < cache.size();) {
    if (const auto line = lineAt(cache, at)) index.emplace(line->path, at);
    at = std::min(cache.find('\n', at), cache.size() - 1) + 1;
  }
  return index;
}

}  // namespace

// "STAMP SHA256" of an earlier walk, "" for none. Walks have the same order, so the next line
// almost always matches.
std::string_view TreeDigest::known(const std::string& path) {
  auto line = lineAt(old_, next_old_);
  if (!line || line->path != path) {
    if (old_.empty()) return {};
    if (!index_) index_ = indexOf(old_);
    const auto found = index_->find(path);
    if (found == index_->end()) return {};
    line = lineAt(old_, found->second);
  }
  next_old_ = line->end;
  return line->head;
}

// Finds the file's hash, or queues the file for reading. False: the file is gone, as if never
// listed; the next walk sees any replacement.
Result<bool> TreeDigest::find(int parent, const char* name, std::string stamp, Line& line) {
  const std::string_view before = known(line.path);
  line.stamp = std::move(stamp);
  if (before.starts_with(line.stamp + " ")) {
    line.content = before.substr(line.stamp.size() + 1);
    return true;
  }
  if (!before.empty()) nameChanged(line.path);
  // Non-blocking: a FIFO in the file's place must not block the walk.
  Fd fd(::openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const int error = fd ? 0 : errno;
  if (!fd && error != ENOENT && error != ELOOP && error != ENXIO) {
    return failErrno("opening " + line.path);
  }
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    nameChanged(line.path);
    seen_.newest = std::max(seen_.newest, begun_);  // so that another walk follows
    return false;
  }
  line.unread = hashes_.add(std::move(fd), line.path);
  return true;
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

namespace {

std::string escape(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c == '\n') out += "\\n";
    if (c == '\\') out += "\\\\";
    if (c != '\n' && c != '\\') out += c;
  }
  return out;
}

}  // namespace

Result<> TreeDigest::settleFirst() {
  Line line = std::move(lines_.front());
  lines_.pop_front();
  if (line.unread) TRY(readFile(line));
  keep(line);
  char head[64];
  const int n = std::snprintf(head, sizeof head, "%c %o %lld ", line.type, line.mode,
                              static_cast<long long>(line.size));
  // A line with an escaped path begins with a backslash, as in sha256sum(1): a path with a newline
  // must not look like two lines.
  const bool escaped = line.path.contains('\n');
  if (escaped) manifest_.update("\\");
  manifest_.update({head, static_cast<size_t>(n)});
  manifest_.update(line.content);
  manifest_.update(" ");
  manifest_.update(escaped ? escape(line.path) : line.path);
  manifest_.update("\n");
  if (line.unread && on_read_) on_read_();
  return {};
}

Result<> TreeDigest::readFile(Line& line) {
  --files_ahead_;
  bytes_ahead_ -= ahead(line);
  FileHashes::Hashed hashed = TRY(hashes_.take(*line.unread));
  ++seen_.files_read;
  seen_.bytes_read += hashed.bytes;
  line.content = std::move(hashed.sha256);
  if (hashed.stamp == line.stamp) return {};
  nameChanged(line.path);
  seen_.newest = std::max(seen_.newest, begun_);  // between the look and the end of the read
  line.stamp.clear();
  return {};
}

// For the next walk, unless the file may change again under the same stamp.
void TreeDigest::keep(const Line& line) {
  if (line.stamp.empty() || line.path.contains('\n') || line.young) return;
  new_.append(line.stamp).append(" ").append(line.content).append(" ").append(line.path) += '\n';
}

Result<> TreeDigest::settleAll() {
  while (!lines_.empty())
    TRY(settleFirst());
  return {};
}

// This file's share of the bytes read ahead of the hash.
uint64_t TreeDigest::ahead(const Line& line) {
  return std::min(static_cast<uint64_t>(line.size), uint64_t{kFileAhead});
}

}  // namespace cloister::linux

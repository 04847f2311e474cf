// SPDX-License-Identifier: Apache-2.0
#include "runner/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include <dirent.h>
#include <time.h>

#include "runner/beneath.h"
#include "runner/glob.h"
#include "runner/other_user.h"

namespace cloister::runner {
namespace {

constexpr uint32_t kMaxDepth = 32;
constexpr size_t kMaxEntries = 16'384;
constexpr size_t kPathBytes = size_t{2} << 20;
constexpr std::string_view kSkippedDirs[] = {"__pycache__", "node_modules"};

// The files and directories found, by path, in fixed memory.
struct Entry {
  uint32_t offset;
  uint16_t length;
  uint16_t depth;
};

struct Found {
  Entry entries[kMaxEntries];
  char paths[kPathBytes];
  size_t count = 0;
  size_t bytes = 0;

  void clear() { count = bytes = 0; }
  [[nodiscard]] std::string_view path(const Entry& entry) const {
    return {paths + entry.offset, entry.length};
  }
  [[nodiscard]] std::string_view last() const { return path(entries[count - 1]); }
  void dropLast() { bytes = entries[--count].offset; }
  // `dir`/`name`, null-terminated. False without room.
  bool add(std::string_view dir, std::string_view name, uint32_t depth) {
    const size_t length = dir.size() + (dir.empty() ? 0 : 1) + name.size();
    if (count == kMaxEntries || length >= PATH_MAX || length + 1 > kPathBytes - bytes) return false;
    char* out = paths + bytes;
    if (!dir.empty()) {
      std::memcpy(out, dir.data(), dir.size());
      out[dir.size()] = '/';
      out += dir.size() + 1;
    }
    std::memcpy(out, name.data(), name.size());
    out[name.size()] = '\0';
    entries[count++] = {static_cast<uint32_t>(bytes), static_cast<uint16_t>(length),
                        static_cast<uint16_t>(depth)};
    bytes += length + 1;
    return true;
  }
};

Found directories;
Found files;

bool isSkipped(std::string_view name) {
  return name.starts_with('.') || std::ranges::find(kSkippedDirs, name) != std::end(kSkippedDirs);
}

// Calls `each(directory, name, path of the directory)` for each regular file beneath `workspace`.
// `each` returns false for a file to leave out; returns the number of files left out. With the
// directory open, a look takes a single call, which matters in gVisor.
template <class Each>
uint32_t forEachFile(int workspace, Each each) {
  alignas(dirent64) static char buffer[32'768];
  directories.clear();
  directories.add("", ".", 0);
  uint32_t left_out = 0;
  for (size_t i = 0; i < directories.count; ++i) {
    const Entry entry = directories.entries[i];
    const std::string_view dir = i == 0 ? std::string_view{} : directories.path(entry);
    constexpr int kFlags = O_RDONLY | O_DIRECTORY;
    const Fd fd(i == 0 ? openat(workspace, ".", kFlags | O_CLOEXEC)
                       : openBeneath(workspace, directories.path(entry).data(), kFlags));
    if (!fd) {
      ++left_out;
      continue;
    }
    for (ssize_t n; (n = syscall(SYS_getdents64, fd.get(), buffer, sizeof buffer)) > 0;) {
      for (ssize_t at = 0; at < n;) {
        const auto* item = reinterpret_cast<const dirent64*>(buffer + at);
        at += item->d_reclen;
        const std::string_view name = item->d_name;
        if (item->d_type == DT_REG) {
          if (!each(fd.get(), item->d_name, dir)) ++left_out;
        } else if (item->d_type == DT_DIR && !isSkipped(name)) {
          const bool fits = entry.depth < kMaxDepth && directories.add(dir, name, entry.depth + 1U);
          if (!fits) ++left_out;
        }
      }
    }
  }
  return left_out;
}

bool matchesAny(const CollectRules& rules, std::string_view path) {
  return std::any_of(rules.globs, rules.globs + rules.glob_count,
                     [&](std::string_view glob) { return globMatch(glob, path); });
}

// Sends exactly `size` bytes; zeros replace missing bytes of a shortened file.
void sendContent(int fd, uint64_t size, uint32_t channel, Link& link) {
  while (size != 0) {
    char* place = link.payload();
    const size_t wanted = std::min<uint64_t>(size, wire::kRunnerMaxPayload);
    ssize_t got = read(fd, place, wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      std::memset(place, 0, wanted);
      got = static_cast<ssize_t>(wanted);
    }
    link.commit(wire::FromRunner::kFileContent, channel, static_cast<size_t>(got));
    size -= static_cast<uint64_t>(got);
  }
}

void sendBegin(std::string_view path, uint64_t size, uint32_t channel, Link& link) {
  char buffer[PATH_MAX + 16];
  wire::Writer w(buffer, sizeof buffer);
  w.bytes(path);
  w.u64(size);
  link.send(wire::FromRunner::kFileBegin, channel, w.view());
}

}  // namespace

int FileWriter::begin(int workspace, std::string_view path, uint32_t mode, uint64_t size) {
  file_.reset();
  left_ = size;
  mode = modeOfBrought(mode);
  if (!isPlainPath(path)) return EINVAL;
  char buffer[PATH_MAX];
  std::memcpy(buffer, path.data(), path.size());
  buffer[path.size()] = '\0';
  if (const int error = makeParents(workspace, buffer); error != 0) return error;
  // A newly made file is regular, and has the mode except for the umask(2).
  Fd file(openBeneath(workspace, buffer, O_WRONLY | O_CREAT | O_EXCL, mode));
  const bool made = static_cast<bool>(file);
  if (!made && errno != EEXIST) return errno;
  // O_NONBLOCK: a FIFO in the way fails instead of waiting for a reader.
  if (!made)
    file.reset(openBeneath(workspace, buffer, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, mode));
  struct stat st;
  if (!file || (!made && fstat(file.get(), &st) != 0)) return errno;
  if (!made && !S_ISREG(st.st_mode)) return EINVAL;
  if ((!made || (mode & kUmask) != 0) && fchmod(file.get(), mode) != 0) return errno;
  file_ = std::move(file);
  if (left_ == 0) finish();
  return 0;
}

// Dates the file a second back: a change within the kernel's clock tick must not look like none.
void FileWriter::finish() {
  if (!file_) return;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  --now.tv_sec;
  const timespec times[2] = {now, now};
  futimens(file_.get(), times);
  file_.reset();
}

bool FileWriter::write(std::string_view bytes, int& error) {
  error = 0;
  if (bytes.size() > left_) return false;
  left_ -= bytes.size();
  while (file_ && !bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      error = errno;
      file_.reset();
      break;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (left_ == 0) finish();
  return true;
}

uint64_t largestFile(int workspace, const timespec& since) {
  uint64_t largest = 0;
  forEachFile(workspace, [&](int directory, const char* name, std::string_view) {
    struct stat status{};
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
    const timespec& at = status.st_mtim;
    const bool written =
        at.tv_sec > since.tv_sec || (at.tv_sec == since.tv_sec && at.tv_nsec >= since.tv_nsec);
    if (S_ISREG(status.st_mode) && written)
      largest = std::max(largest, static_cast<uint64_t>(status.st_size));
    return true;
  });
  return largest;
}

void markFiles(int workspace, FileTable& table) {
  table.clear();
  files.clear();
  forEachFile(workspace, [&](int directory, const char* name, std::string_view dir) {
    struct stat st;
    if (!files.add(dir, name, 0)) return false;
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0) table.add(files.last(), st);
    files.dropLast();
    return true;
  });
}

void collectFiles(int workspace, FileTable& table, const CollectRules& rules, uint32_t channel,
                  Link& link) {
  uint32_t left_out = 0;
  files.clear();
  const auto note = [&](int directory, const char* name, std::string_view dir) {
    struct stat st;
    if (!files.add(dir, name, 0)) return false;
    const bool wanted = matchesAny(rules, files.last()) &&
                        (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
                         !table.unchanged(files.last(), st));
    if (!wanted) files.dropLast();
    return true;
  };
  if (rules.glob_count != 0) left_out = forEachFile(workspace, note);
  std::sort(files.entries, files.entries + files.count,
            [](const Entry& a, const Entry& b) { return files.path(a) < files.path(b); });
  uint32_t sent = 0;
  uint64_t bytes_left = rules.max_bytes;
  for (size_t i = 0; i < files.count; ++i) {
    const std::string_view path = files.path(files.entries[i]);
    // O_NONBLOCK: a former file may meanwhile be a FIFO.
    const Fd fd(openBeneath(workspace, path.data(), O_RDONLY | O_NONBLOCK | O_NOCTTY));
    struct stat st{};
    const bool readable = fd && fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode);
    if (readable && table.unchanged(path, st)) continue;
    const auto size = static_cast<uint64_t>(st.st_size);
    if (!readable || sent == rules.max_files || size > bytes_left) {
      ++left_out;
      continue;
    }
    sendBegin(path, size, channel, link);
    sendContent(fd.get(), size, channel, link);
    bytes_left -= size;
    ++sent;
  }
  wire::Writer w(link.payload(), sizeof left_out);
  w.u32(left_out);
  link.commit(wire::FromRunner::kCollected, channel, w.view().size());
}

}  // namespace cloister::runner

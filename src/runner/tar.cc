// SPDX-License-Identifier: Apache-2.0
#include "runner/tar.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/directory.h"
#include "runner/readable.h"
#include "runner/tar_format.h"
#include "runner/unfinished.h"

namespace cloister::runner {
namespace {

using wire::files::kMaxDepth;

constexpr uint64_t kMostOctal = 077777777777;  // of eleven digits

template <size_t kSize>
void setOctal(char (&field)[kSize], uint64_t value) {
  snprintf(field, kSize, "%0*llo", static_cast<int>(kSize) - 1,
           static_cast<unsigned long long>(value));
}

class Packer {
 public:
  explicit Packer(Answer& answer) : answer_(answer) {}

  // Adds an open regular file under the current path.
  int file(int fd, size_t length, const struct stat& st) {
    if (const int error = header(length, '0', st, ""); error != 0) return error;
    const auto size = static_cast<uint64_t>(st.st_size);
    for (uint64_t left = size; left > 0;) {
      ssize_t n = read(fd, piece_, std::min<uint64_t>(left, sizeof piece_));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {  // the file became shorter, which its header can no longer say
        n = static_cast<ssize_t>(std::min<uint64_t>(left, sizeof piece_));
        std::memset(piece_, 0, static_cast<size_t>(n));
      }
      if (const int error = answer_.put({piece_, static_cast<size_t>(n)}); error != 0) return error;
      left -= static_cast<uint64_t>(n);
    }
    return zeros(padding(size));
  }

  int directory(int fd, size_t length, uint32_t depth) {
    return forEachEntry(fd, [&](const char* name) {
      const size_t size = std::strlen(name);
      if (length + size + 2 >= sizeof path_) return ENAMETOOLONG;
      std::memcpy(path_ + length, name, size);
      return entry(fd, name, length + size, depth);
    });
  }

  int finish() { return zeros(2 * kBlock); }

  void begin(const char* name) { strcpy(path_, name); }

  // Adds the content of an open directory, with the directory's `path` before each name.
  int under(int fd, std::string_view path) {
    if (!noteBase(path)) return ENAMETOOLONG;
    std::memcpy(path_, path.data(), path.size());
    path_[path.size()] = '/';
    base_ = path.size() + 1;
    return directory(fd, base_, kMaxDepth);
  }

 private:
  int entry(int directory_fd, const char* name, size_t length, uint32_t depth) {
    struct stat st;
    if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;  // already removed
    if (S_ISLNK(st.st_mode)) {
      char target[PATH_MAX];
      const ssize_t n = readlinkat(directory_fd, name, target, sizeof target - 1);
      if (n < 0) return 0;
      target[n] = '\0';
      st.st_size = 0;
      return header(length, '2', st, target);
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return 0;
    Readable readable(directory_fd, name, {path_ + base_, length - base_}, st);
    const Fd fd(openBeneath(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    if (!fd) return errno == ENOENT ? 0 : errno;
    const mode_t mode = st.st_mode;
    if (fstat(fd.get(), &st) != 0) return errno;
    if (readable.changed()) st.st_mode = (st.st_mode & S_IFMT) | (mode & 07777);
    if (S_ISREG(st.st_mode)) {
      readable.end();  // once open, the file stays readable for as long as needed
      return file(fd.get(), length, st);
    }
    if (!S_ISDIR(st.st_mode)) return 0;
    if (depth == 0) return ENAMETOOLONG;
    path_[length] = '/';
    st.st_size = 0;
    if (const int error = header(length + 1, '5', st, ""); error != 0) return error;
    return directory(fd.get(), length + 1, depth - 1);
  }

  // Values that do not fit into the fields go into a preceding pax header.
  int header(size_t length, char type, const struct stat& st, const char* target) {
    const size_t target_length = std::strlen(target);
    TarHeader h{};
    const bool long_path = length > sizeof h.name;
    const bool long_link = target_length > sizeof h.link;
    const bool fine_time = st.st_mtim.tv_nsec != 0 && st.st_mtim.tv_sec >= 0;
    const bool large = static_cast<uint64_t>(st.st_size) > kMostOctal;
    if (long_path || long_link || fine_time || large) {
      size_t size = 0;
      char time[48];
      char bytes[24];
      snprintf(bytes, sizeof bytes, "%llu", static_cast<unsigned long long>(st.st_size));
      if (large) size += record(size, "size", bytes);
      snprintf(time, sizeof time, "%lld.%09ld", static_cast<long long>(st.st_mtim.tv_sec),
               st.st_mtim.tv_nsec);
      if (fine_time) size += record(size, "mtime", time);
      if (long_path) size += record(size, "path", {path_, length});
      if (long_link) size += record(size, "linkpath", {target, target_length});
      if (const int error = extended(size); error != 0) return error;
    }
    std::memcpy(h.name, path_, std::min(length, sizeof h.name));
    std::memcpy(h.link, target, std::min(target_length, sizeof h.link));
    setOctal(h.mode, st.st_mode & 0777);
    setOctal(h.size, large ? 0 : static_cast<uint64_t>(st.st_size));
    setOctal(h.mtime, static_cast<uint64_t>(std::max<int64_t>(st.st_mtim.tv_sec, 0)));
    return block(h, type);
  }

  // "length key=value\n", with the length's own digits counted.
  size_t record(size_t at, const char* key, std::string_view value) {
    const size_t rest = 1 + std::strlen(key) + 1 + value.size() + 1;
    size_t total = rest + 1;
    for (size_t limit = 10; total >= limit; limit *= 10)
      total = std::max(total, rest + static_cast<size_t>(snprintf(nullptr, 0, "%zu", total)));
    const int head = snprintf(extended_ + at, sizeof extended_ - at, "%zu %s=", total, key);
    std::memcpy(extended_ + at + head, value.data(), value.size());
    extended_[at + total - 1] = '\n';
    return total;
  }

  int extended(size_t size) {
    TarHeader h{};
    strcpy(h.name, "pax");
    setOctal(h.mode, 0644);
    setOctal(h.size, size);
    setOctal(h.mtime, 0);
    if (const int error = block(h, 'x'); error != 0) return error;
    if (const int error = answer_.put({extended_, size}); error != 0) return error;
    return zeros(padding(size));
  }

  int block(TarHeader& h, char type) {
    setOctal(h.uid, 0);
    setOctal(h.gid, 0);
    h.type = type;
    std::memcpy(h.magic, "ustar", 6);
    std::memcpy(h.version, "00", 2);
    snprintf(h.checksum, sizeof h.checksum, "%06o", checksumOf(h));
    h.checksum[7] = ' ';
    return answer_.put({reinterpret_cast<const char*>(&h), sizeof h});
  }

  int zeros(uint64_t count) {
    static constexpr char kZeros[2 * kBlock] = {};
    return answer_.put({kZeros, count});
  }

  Answer& answer_;
  size_t base_ = 0;  // of path_: bytes before the path beneath noteBase()
  char path_[PATH_MAX];
  char piece_[32'768];
  char extended_[2 * PATH_MAX + 192];
};

}  // namespace

int pack(int fd, const char* name, Answer& answer) {
  static Packer packer(answer);
  struct stat st;
  if (fstat(fd, &st) != 0) return errno;
  int error = EINVAL;
  if (S_ISDIR(st.st_mode)) {
    error = packer.directory(fd, 0, kMaxDepth);
  } else if (S_ISREG(st.st_mode)) {
    packer.begin(name);
    error = packer.file(fd, std::strlen(name), st);
  }
  return error != 0 ? error : packer.finish();
}

int packSaved(int workspace, int home, Answer& answer) {
  static Packer packer(answer);
  if (!noteBase("")) return ENAMETOOLONG;
  if (const int error = packer.directory(workspace, 0, kMaxDepth); error != 0) return error;
  if (const int error = packer.under(home, model::kHome); error != 0) return error;
  return packer.finish();
}

}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
#include "runner/tar.h"

#include <fcntl.h>

#include <algorithm>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/directory.h"

namespace cloister::runner {
namespace {

using wire::files::kMaxDepth;

constexpr size_t kBlock = 512;
constexpr size_t kMaxExtended = size_t{64} << 10;  // of a pax header or a GNU long name

// pax(1), "ustar Interchange Format".
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char owner[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char pad[12];
};
static_assert(sizeof(Header) == kBlock);

constexpr uint64_t padding(uint64_t size) {
  return (kBlock - size % kBlock) % kBlock;
}

template <size_t kSize>
void setOctal(char (&field)[kSize], uint64_t value) {
  snprintf(field, kSize, "%0*llo", static_cast<int>(kSize) - 1,
           static_cast<unsigned long long>(value));
}

// The sum of the header's bytes, its own field taken as blanks.
uint32_t checksumOf(const Header& header) {
  uint32_t sum = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  for (size_t i = 0; i < kBlock; ++i)
    sum += bytes[i];
  for (const char c : header.checksum)
    sum += ' ' - static_cast<unsigned char>(c);
  return sum;
}

class Packer {
 public:
  explicit Packer(Answer& answer) : answer_(answer) {}

  // A regular file that is open, under the path so far.
  int file(int fd, size_t length, const struct stat& st) {
    if (const int error = header(length, '0', st, ""); error != 0) return error;
    const auto size = static_cast<uint64_t>(st.st_size);
    for (uint64_t left = size; left > 0;) {
      ssize_t n = read(fd, piece_, std::min<uint64_t>(left, sizeof piece_));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {  // it has become shorter, which its header cannot say any more
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

 private:
  int entry(int directory_fd, const char* name, size_t length, uint32_t depth) {
    struct stat st;
    if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;  // it has gone
    if (S_ISLNK(st.st_mode)) {
      char target[PATH_MAX];
      const ssize_t n = readlinkat(directory_fd, name, target, sizeof target - 1);
      if (n < 0) return 0;
      target[n] = '\0';
      st.st_size = 0;
      return header(length, '2', st, target);
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return 0;
    const Fd fd(openBeneath(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    if (!fd || fstat(fd.get(), &st) != 0) return errno == ENOENT ? 0 : errno;
    if (S_ISREG(st.st_mode)) return file(fd.get(), length, st);
    if (!S_ISDIR(st.st_mode)) return 0;
    if (depth == 0) return ENAMETOOLONG;
    path_[length] = '/';
    st.st_size = 0;
    if (const int error = header(length + 1, '5', st, ""); error != 0) return error;
    return directory(fd.get(), length + 1, depth - 1);
  }

  // What does not fit into the fields goes into a pax header before it.
  int header(size_t length, char type, const struct stat& st, const char* target) {
    const size_t target_length = std::strlen(target);
    Header h{};
    const bool long_path = length > sizeof h.name;
    const bool long_link = target_length > sizeof h.link;
    if (long_path || long_link) {
      size_t size = 0;
      if (long_path) size += record(size, "path", {path_, length});
      if (long_link) size += record(size, "linkpath", {target, target_length});
      if (const int error = extended(size); error != 0) return error;
    }
    std::memcpy(h.name, path_, std::min(length, sizeof h.name));
    std::memcpy(h.link, target, std::min(target_length, sizeof h.link));
    setOctal(h.mode, st.st_mode & 0777);
    setOctal(h.size, static_cast<uint64_t>(st.st_size));
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
    Header h{};
    strcpy(h.name, "pax");
    setOctal(h.mode, 0644);
    setOctal(h.size, size);
    setOctal(h.mtime, 0);
    if (const int error = block(h, 'x'); error != 0) return error;
    if (const int error = answer_.put({extended_, size}); error != 0) return error;
    return zeros(padding(size));
  }

  int block(Header& h, char type) {
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
  char path_[PATH_MAX];
  char piece_[32'768];
  char extended_[2 * PATH_MAX + 64];
};

// The archive on stdin.
class Unpacker {
 public:
  explicit Unpacker(int directory) : directory_(directory) {}

  int run() {
    for (;;) {
      bool more = false;
      if (const int error = fill(block_, kBlock, more); error != 0) return error;
      std::memcpy(&header_, block_, kBlock);
      // Two blocks of zeros end it; what comes after them is nobody's.
      if (!more || header_.name[0] == '\0') return drain();
      if (const int error = entry(); error != 0) return error;
    }
  }

  [[nodiscard]] uint32_t leftOut() const { return left_out_; }

 private:
  int entry() {
    uint64_t sum = 0;
    uint64_t size = 0;
    if (!octal(header_.checksum, sum) || sum != checksumOf(header_)) return EINVAL;
    if (!octal(header_.size, size)) return EINVAL;
    switch (header_.type) {
      case 'x':
        return extended(size);
      case 'g':
        return skip(size);
      case 'L':
        return longName(path_, size);
      case 'K':
        return longName(link_, size);
      default:
        break;
    }
    if (path_[0] == '\0') shortName();
    if (link_[0] == '\0') copyField(header_.link, sizeof header_.link, link_);
    const int error = make(size_given_ ? size_ : size);
    path_[0] = link_[0] = '\0';
    size_given_ = false;
    return error;
  }

  int make(uint64_t size) {
    trim(path_);
    if (path_[0] == '\0') return skip(header_.type == '5' ? 0 : size);  // "./" itself
    if (!isPlainPath(path_)) return EINVAL;
    switch (header_.type) {
      case '0':
      case '\0':
        return file(size);
      case '5':
        return directory();
      case '2':
        return symbolicLink();
      case '1':
        return hardLink();
      default:
        ++left_out_;
        return skip(size);
    }
  }

  // "./" before it and "/" behind it say nothing.
  static void trim(char* path) {
    char* from = path;
    while (from[0] == '.' && from[1] == '/') {
      for (from += 2; *from == '/'; ++from) {
      }
    }
    if (strcmp(from, ".") == 0) ++from;
    std::memmove(path, from, std::strlen(from) + 1);
    for (size_t n = std::strlen(path); n > 1 && path[n - 1] == '/'; --n)
      path[n - 1] = '\0';
  }

  // The directory of path_, made if need be, and the name in it, free for something new.
  int clear(Fd& parent, const char*& name) {
    if (const int error = makeParents(directory_, path_); error != 0) return error;
    char* slash = std::strrchr(path_, '/');
    if (slash != nullptr) *slash = '\0';
    parent.reset(openBeneath(directory_, slash == nullptr ? "." : path_, O_RDONLY | O_DIRECTORY));
    const int error = parent ? 0 : errno;
    if (slash != nullptr) *slash = '/';
    if (error != 0) return error;
    name = slash == nullptr ? path_ : slash + 1;
    return unlinkat(parent.get(), name, 0) == 0 || errno == ENOENT ? 0 : errno;
  }

  int file(uint64_t size) {
    Fd parent;
    const char* name = nullptr;
    uint64_t mode = 0644;
    if (!octal(header_.mode, mode)) return EINVAL;
    if (const int error = clear(parent, name); error != 0) return error;
    const Fd fd(openBeneath(parent.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0600));
    if (!fd) return errno;
    for (uint64_t left = size; left > 0;) {
      bool more = false;
      const size_t n = std::min<uint64_t>(left, sizeof piece_);
      if (const int error = fill(piece_, n, more); error != 0) return error;
      if (!more) return EINVAL;
      for (size_t done = 0; done < n;) {
        const ssize_t wrote = write(fd.get(), piece_ + done, n - done);
        if (wrote < 0 && errno != EINTR) return errno;
        if (wrote > 0) done += static_cast<size_t>(wrote);
      }
      left -= n;
    }
    if (fchmod(fd.get(), static_cast<mode_t>(mode) & 0777) != 0) return errno;
    return skip(padding(size), false);
  }

  int directory() {
    if (const int error = makeParents(directory_, path_); error != 0) return error;
    Fd there(openBeneath(directory_, path_, O_PATH | O_DIRECTORY));
    if (there) return 0;
    if (errno != ENOENT) return errno;
    Fd parent;
    const char* name = nullptr;
    if (const int error = clear(parent, name); error != 0) return error;
    return mkdirat(parent.get(), name, 0755) == 0 ? 0 : errno;
  }

  int symbolicLink() {
    Fd parent;
    const char* name = nullptr;
    if (link_[0] == '\0') return EINVAL;
    if (const int error = clear(parent, name); error != 0) return error;
    return symlinkat(link_, parent.get(), name) == 0 ? 0 : errno;
  }

  int hardLink() {
    Fd parent;
    const char* name = nullptr;
    trim(link_);
    if (!isPlainPath(link_)) return EINVAL;
    if (const int error = clear(parent, name); error != 0) return error;
    char* slash = std::strrchr(link_, '/');
    if (slash != nullptr) *slash = '\0';
    const Fd from(openBeneath(directory_, slash == nullptr ? "." : link_, O_RDONLY | O_DIRECTORY));
    if (!from) return errno;
    const char* old = slash == nullptr ? link_ : slash + 1;
    return linkat(from.get(), old, parent.get(), name, 0) == 0 ? 0 : errno;
  }

  // The records of a pax header: "length key=value\n".
  int extended(uint64_t size) {
    if (size > kMaxExtended) return EFBIG;
    bool more = false;
    if (const int error = fill(extended_, size, more); error != 0) return error;
    if (!more && size > 0) return EINVAL;
    for (std::string_view rest(extended_, size); !rest.empty();) {
      size_t length = 0;
      size_t digits = 0;
      for (; digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9' && digits < 8;
           ++digits)
        length = length * 10 + static_cast<size_t>(rest[digits] - '0');
      if (digits == 0 || length > rest.size() || length < digits + 3 || rest[digits] != ' ' ||
          rest[length - 1] != '\n')
        return EINVAL;
      if (const int error = record({rest.data() + digits + 1, length - digits - 2}); error != 0)
        return error;
      rest.remove_prefix(length);
    }
    return skip(padding(size), false);
  }

  int record(std::string_view text) {
    const size_t at = text.find('=');
    if (at == std::string_view::npos) return EINVAL;
    const std::string_view key(text.data(), at);
    const std::string_view value(text.data() + at + 1, text.size() - at - 1);
    if (key.starts_with("GNU.sparse")) return EINVAL;  // the content would not be the file's
    if (key == "path") return copyText(value, path_);
    if (key == "linkpath") return copyText(value, link_);
    if (key != "size") return 0;
    if (value.empty() || value.size() > 15) return EINVAL;
    size_ = 0;
    size_given_ = true;
    for (const char c : value) {
      if (c < '0' || c > '9') return EINVAL;
      size_ = size_ * 10 + static_cast<uint64_t>(c - '0');
    }
    return 0;
  }

  int longName(char (&out)[PATH_MAX], uint64_t size) {
    if (size == 0 || size > PATH_MAX) return EFBIG;
    bool more = false;
    if (const int error = fill(out, size, more); error != 0) return error;
    if (!more || out[size - 1] != '\0') return EINVAL;
    return skip(padding(size), false);
  }

  void shortName() {
    char* out = path_;
    const size_t prefix = std::memcmp(header_.magic, "ustar", 6) == 0
                              ? strnlen(header_.prefix, sizeof header_.prefix)
                              : 0;
    std::memcpy(out, header_.prefix, prefix);
    out += prefix;
    if (prefix > 0) *out++ = '/';
    copyField(header_.name, sizeof header_.name, out);
  }

  static void copyField(const char* field, size_t size, char* out) {
    const size_t n = strnlen(field, size);
    std::memcpy(out, field, n);
    out[n] = '\0';
  }

  static int copyText(std::string_view value, char (&out)[PATH_MAX]) {
    if (value.empty() || value.size() >= sizeof out || value.contains('\0')) return EINVAL;
    std::memcpy(out, value.data(), value.size());
    out[value.size()] = '\0';
    return 0;
  }

  // Blanks or NUL around the digits; the base-256 of GNU tar is for what no workspace holds.
  template <size_t kSize>
  static bool octal(const char (&field)[kSize], uint64_t& value) {
    size_t i = 0;
    while (i < kSize && field[i] == ' ')
      ++i;
    value = 0;
    for (; i < kSize && field[i] >= '0' && field[i] <= '7'; ++i)
      value = value * 8 + static_cast<uint64_t>(field[i] - '0');
    return i == kSize || field[i] == ' ' || field[i] == '\0';
  }

  // Exactly `size` bytes; `more` is false at the end of stdin before the first of them.
  int fill(char* out, size_t size, bool& more) {
    more = false;
    for (size_t got = 0; got < size;) {
      const ssize_t n = read(STDIN_FILENO, out + got, size - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      if (n == 0) return got == 0 ? 0 : EINVAL;
      got += static_cast<size_t>(n);
      more = true;
    }
    return 0;
  }

  int skip(uint64_t size, bool padded = true) {
    for (uint64_t left = size + (padded ? padding(size) : 0); left > 0;) {
      bool more = false;
      const size_t n = std::min<uint64_t>(left, sizeof piece_);
      if (const int error = fill(piece_, n, more); error != 0) return error;
      if (!more) return EINVAL;
      left -= n;
    }
    return 0;
  }

  int drain() {
    for (bool more = true; more;) {
      const ssize_t n = read(STDIN_FILENO, piece_, sizeof piece_);
      if (n < 0 && errno != EINTR) return errno;
      more = n != 0;
    }
    return 0;
  }

  int directory_;
  uint32_t left_out_ = 0;
  Header header_{};
  char block_[kBlock];
  char path_[PATH_MAX] = "";
  char link_[PATH_MAX] = "";
  uint64_t size_ = 0;  // of a pax header
  bool size_given_ = false;
  char extended_[kMaxExtended];
  char piece_[32'768];
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

int unpack(int directory, uint32_t& left_out) {
  static Unpacker unpacker(directory);
  const int error = unpacker.run();
  left_out = unpacker.leftOut();
  return error;
}

}  // namespace cloister::runner

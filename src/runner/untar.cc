// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/other_user.h"
#include "runner/tar.h"
#include "runner/tar_format.h"

namespace cloister::runner {
namespace {

using wire::files::kMaxDepth;

constexpr size_t kMaxExtended = size_t{64} << 10;  // of a pax header or a GNU long name
constexpr uint64_t kLastSecond = 9'000'000'000;    // seconds that fit into nanoseconds

// Times for futimens(3), without the access time.
struct Times {
  explicit Times(const timespec& modified) : both{{0, UTIME_OMIT}, modified} {}
  timespec both[2];
};

// The archive on stdin.
class Unpacker {
 public:
  explicit Unpacker(int directory) : directory_(directory) {}
  // For an archive with the home directory's entries, too.
  Unpacker(int workspace, int home) : directory_(workspace), other_(home) {}

  int run() {
    for (;;) {
      bool more = false;
      if (const int error = fill(block_, kBlock, more); error != 0) return error;
      std::memcpy(&header_, block_, kBlock);
      // Two blocks of zeros end the archive; later bytes are ignored.
      if (!more || header_.name[0] == '\0') {
        const int error = leave("");
        return error != 0 ? error : drain();
      }
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
    size_given_ = time_given_ = false;
    return error;
  }

  int make(uint64_t size) {
    trim(path_);
    if (path_[0] == '\0') return skip(header_.type == '5' ? 0 : size);  // "./" itself
    if (const int error = chooseDirectory(); error != 0) return error;
    if (!isPlainPath(path_)) return EINVAL;
    if (const int error = leave(path_); error != 0) return error;
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

  // Makes directory_ the directory of path_, and path_ relative to directory_.
  int chooseDirectory() {
    const bool home = other_ >= 0 && path_[0] == '/';
    if (home != in_home_) {
      if (const int error = leave(""); error != 0) return error;
      std::swap(directory_, other_);
      in_home_ = home;
    }
    if (!home) return 0;
    const size_t above = model::kHome.size() + 1;
    if (!wire::files::isWithin(path_, model::kHome) || path_[above - 1] == '\0') return EINVAL;
    std::memmove(path_, path_ + above, std::strlen(path_ + above) + 1);
    return 0;
  }

  // Removes a leading "./" and a trailing "/", which have no meaning.
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

  // Finds the directory of path_, made if missing, and the name there, free for a new entry.
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
    if (fchmod(fd.get(), modeOfBrought(static_cast<mode_t>(mode) & 0777)) != 0) return errno;
    const Times times(time());
    if (futimens(fd.get(), times.both) != 0) return errno;
    return skip(padding(size), false);
  }

  // An existing directory gets the mode and time too.
  int directory() {
    uint64_t mode = 0755;
    if (!octal(header_.mode, mode)) return EINVAL;
    if (const int error = makeParents(directory_, path_); error != 0) return error;
    const Fd there(openBeneath(directory_, path_, O_PATH | O_DIRECTORY));
    if (!there) {
      if (errno != ENOENT) return errno;
      Fd parent;
      const char* name = nullptr;
      if (const int error = clear(parent, name); error != 0) return error;
      if (mkdirat(parent.get(), name, 0700) != 0) return errno;
    }
    return enter(static_cast<mode_t>(mode) & 0777);
  }

  // Directories get their modes and times after the archive has left them, since their content
  // changes the time, and the mode may forbid writing. Beyond kMaxDepth, directories keep their
  // initial values.
  int enter(mode_t mode) {
    if (depth_ == kMaxDepth) return 0;
    strcpy(within_, path_);
    levels_[depth_++] = {std::strlen(path_), mode, time()};
    return 0;
  }

  // Leaves all directories that do not include `path`.
  int leave(const char* path) {
    for (; depth_ > 0; --depth_) {
      const Level& level = levels_[depth_ - 1];
      within_[level.length] = '\0';
      if (strncmp(path, within_, level.length) == 0 && path[level.length] == '/') return 0;
      const Fd fd(openBeneath(directory_, within_, O_RDONLY | O_DIRECTORY));
      const Times times(level.modified);
      if (!fd && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) continue;  // replaced
      if (!fd || fchmod(fd.get(), modeOfBrought(level.mode)) != 0 ||
          futimens(fd.get(), times.both) != 0)
        return errno;
    }
    return 0;
  }

  // The current entry's time; a time that cannot be represented is left out.
  timespec time() {
    uint64_t seconds = 0;
    if (time_given_) return time_;
    if (!octal(header_.mtime, seconds) || seconds > kLastSecond) return {0, UTIME_OMIT};
    return {static_cast<time_t>(seconds), 0};
  }

  // Parses "seconds.fraction"; ignores other text.
  void setTime(std::string_view text) {
    uint64_t seconds = 0;
    size_t i = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && seconds <= kLastSecond; ++i)
      seconds = seconds * 10 + static_cast<uint64_t>(text[i] - '0');
    long nanos = 0;
    long unit = 100'000'000;
    const bool fraction = i > 0 && i < text.size() && text[i] == '.';
    for (i += fraction ? 1 : 0; fraction && i < text.size() && text[i] >= '0' && text[i] <= '9';
         ++i, unit /= 10)
      nanos += (text[i] - '0') * unit;
    time_given_ = i > 0 && i == text.size() && seconds <= kLastSecond;
    time_ = {static_cast<time_t>(seconds), nanos};
  }

  int symbolicLink() {
    Fd parent;
    const char* name = nullptr;
    if (link_[0] == '\0') return EINVAL;
    if (const int error = clear(parent, name); error != 0) return error;
    if (symlinkat(link_, parent.get(), name) != 0) return errno;
    const Times times(time());
    return utimensat(parent.get(), name, times.both, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
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
    if (key == "mtime") setTime(value);
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

  // Blanks or NUL may surround the digits. GNU tar's base-256 is only for sizes beyond any
  // workspace.
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

  // Reads exactly `size` bytes; `more` is false if stdin ends before the first.
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

  int directory_;   // of the current entry
  int other_ = -1;  // -1: there is none
  bool in_home_ = false;
  uint32_t left_out_ = 0;
  TarHeader header_{};
  char block_[kBlock];
  char path_[PATH_MAX] = "";
  char link_[PATH_MAX] = "";
  uint64_t size_ = 0;  // of a pax header
  bool size_given_ = false;
  timespec time_{};  // of a pax header
  bool time_given_ = false;
  // The archive's current directories, nested: prefixes of within_.
  struct Level {
    size_t length;
    mode_t mode;
    timespec modified;
  };
  Level levels_[kMaxDepth];
  size_t depth_ = 0;
  char within_[PATH_MAX] = "";
  char extended_[kMaxExtended];
  char piece_[32'768];
};

}  // namespace

int unpack(int directory, uint32_t& left_out) {
  static Unpacker unpacker(directory);
  const int error = unpacker.run();
  left_out = unpacker.leftOut();
  return error;
}

int unpackSaved(int workspace, int home, uint32_t& left_out) {
  static Unpacker unpacker(workspace, home);
  const int error = unpacker.run();
  left_out = unpacker.leftOut();
  return error;
}

}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
#include "runner/state.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/directory.h"
#include "runner/readable.h"
#include "runner/sha256.h"

namespace cloister::runner {
namespace {

using base::Fd;
using wire::files::kMaxDepth;

struct State {
  Answer& answer;
  uint64_t bytes_left;
  uint64_t files_left;
  size_t base = 0;  // of path: bytes before the path beneath noteBase()
  char path[PATH_MAX];
  char piece[65'536];

  int walk(int directory, size_t length, uint32_t depth) {
    return forEachPath(directory, path, length, [&](const char* name, size_t size) {
      return size == 0 ? ENAMETOOLONG : one(directory, name, size, depth);
    });
  }

  int one(int directory, const char* name, size_t length, uint32_t depth) {
    struct stat st;
    // The entry may have been removed since its directory was read.
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    if (files_left == 0) return EFBIG;
    --files_left;
    if (S_ISLNK(st.st_mode)) return link(directory, name, length, st);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return tell(length, st, {});
    Readable readable(directory, name, {path + base, length - base}, st);
    const Fd fd(openBeneath(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    if (!fd) return errno == ENOENT ? 0 : errno;
    const mode_t mode = st.st_mode;
    if (fstat(fd.get(), &st) != 0) return errno;
    // Another may have taken its place.
    if ((st.st_mode & S_IFMT) != (mode & S_IFMT)) return EAGAIN;
    if (readable.changed()) st.st_mode = mode;
    if (S_ISREG(st.st_mode)) {
      readable.end();
      return file(fd.get(), length, st);
    }
    if (depth == 0) return ENAMETOOLONG;
    if (const int error = tell(length, st, {}); error != 0) return error;
    return walk(fd.get(), length, depth - 1);
  }

  int link(int directory, const char* name, size_t length, const struct stat& st) {
    char target[PATH_MAX];
    const ssize_t n = readlinkat(directory, name, target, sizeof target);
    if (n < 0) return errno == ENOENT ? 0 : errno;
    return tell(length, st, {target, static_cast<size_t>(n)});
  }

  int file(int fd, size_t length, struct stat st) {
    Sha256 hash;
    uint64_t size = 0;
    for (;;) {
      const ssize_t n = read(fd, piece, sizeof piece);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      if (n == 0) break;
      if (static_cast<uint64_t>(n) > bytes_left) return EFBIG;
      bytes_left -= static_cast<uint64_t>(n);
      size += static_cast<uint64_t>(n);
      hash.add({piece, static_cast<size_t>(n)});
    }
    char digest[Sha256::kSize];
    hash.finish(digest);
    st.st_size = static_cast<off_t>(size);
    return tell(length, st, {digest, sizeof digest});
  }

  // No times for directories: the service's own files come and go there.
  int tell(size_t length, const struct stat& st, std::string_view sum) {
    const bool regular = S_ISREG(st.st_mode);
    const bool shared = regular && st.st_nlink > 1;
    char text[2 * PATH_MAX + 64];
    wire::Writer w(text, sizeof text);
    w.u8(static_cast<uint8_t>(wire::files::Kind::kState));
    w.u32(st.st_mode);
    w.u64(regular ? static_cast<uint64_t>(st.st_size) : 0);
    w.bytes({path, length});
    w.bytes(sum);
    w.i64(regular ? st.st_mtim.tv_sec : 0);
    w.u32(regular ? static_cast<uint32_t>(st.st_mtim.tv_nsec) : 0);
    w.u64(shared ? st.st_dev : 0);
    w.u64(shared ? st.st_ino : 0);
    return w.ok() ? answer.put(w.view()) : ENAMETOOLONG;
  }
};

}  // namespace

int tellState(int workspace, int home, uint64_t most_bytes, uint64_t most_files, Answer& answer) {
  static State state{answer, most_bytes, most_files, 0, {}, {}};
  const Fd root(openBeneath(workspace, ".", O_RDONLY | O_DIRECTORY));
  if (!root) return errno;
  if (!noteBase("")) return ENAMETOOLONG;
  struct stat st;
  if (fstat(root.get(), &st) != 0) return errno;
  if (const int error = state.tell(0, st, {}); error != 0) return error;
  if (const int error = state.walk(root.get(), 0, kMaxDepth); error != 0) return error;
  if (!noteBase(model::kHome)) return ENAMETOOLONG;
  std::memcpy(state.path, model::kHome.data(), model::kHome.size());
  state.base = model::kHome.size() + 1;
  if (const int error = state.walk(home, model::kHome.size(), kMaxDepth); error != 0) return error;
  return answer.end(0);
}

}  // namespace cloister::runner

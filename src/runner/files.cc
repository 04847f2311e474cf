// SPDX-License-Identifier: Apache-2.0
#include "runner/files.h"

#include <fcntl.h>
#include <linux/fs.h>

#include <algorithm>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "runner/answer.h"
#include "runner/beneath.h"
#include "runner/connect.h"
#include "runner/directory.h"
#include "runner/glob.h"
#include "runner/other_user.h"
#include "runner/roots.h"
#include "runner/state.h"
#include "runner/stop_rest.h"
#include "runner/tar.h"
#include "runner/tools.h"
#include "runner/unfinished.h"
#include "runner/watch.h"

namespace cloister::runner {
namespace {

using wire::files::kMaxDepth;

Answer the_answer;
char piece[65'536];

// A path of a request, in its directory and its name there.
struct Place {
  char path[PATH_MAX];  // as requested; ends after the directory
  Fd parent;
  const char* name = "";

  // The directory's path.
  [[nodiscard]] const char* above() const { return name == path ? "" : path; }

  // Returns errno.
  int find(int workspace, const char* text, bool make_parents = false) {
    if (std::strlen(text) >= sizeof path) return EINVAL;
    strcpy(path, text);
    const char* rest = path;
    const RootOf root(workspace, rest);
    if (root.fd() < 0) return errno;
    if (!isPlainPath(rest)) return EINVAL;
    char* within = path + (rest - path);
    if (make_parents) {
      if (const int error = makeParents(root.fd(), within); error != 0) return error;
    }
    char* slash = std::strrchr(within, '/');
    if (slash == nullptr) {
      name = within;
      parent.reset(openBeneath(root.fd(), ".", O_RDONLY | O_DIRECTORY));
      if (within != path) within[-1] = '\0';
    } else {
      *slash = '\0';
      name = slash + 1;
      parent.reset(openBeneath(root.fd(), within, O_RDONLY | O_DIRECTORY));
    }
    return parent ? 0 : errno;
  }
};

// Opens the place named `text`. Returns errno.
int openPlace(int workspace, const char* text, uint64_t flags, Fd& fd) {
  const RootOf root(workspace, text);
  if (root.fd() < 0) return errno;
  const bool self = *text == '\0';
  if (!self && !isPlainPath(text)) return EINVAL;
  fd.reset(openBeneath(root.fd(), self ? "." : text, flags));
  return fd ? 0 : errno;
}

int number(const char* text, uint64_t& value) {
  char* end = nullptr;
  errno = 0;
  value = strtoull(text, &end, 10);
  return errno != 0 || end == text || *end != '\0' || *text == '-' ? EINVAL : 0;
}

int tell(int fd, std::string_view path) {
  struct stat st;
  return fstat(fd, &st) != 0 ? errno : the_answer.entry(path, st);
}

int statPlace(int workspace, char** argv) {
  Fd fd;
  if (const int error = openPlace(workspace, argv[1], O_PATH, fd); error != 0) return error;
  return tell(fd.get(), "");
}

// Lists a directory and, up to a depth, its subdirectories.
struct Listing {
  uint64_t left;  // entries still permitted
  uint32_t left_out = 0;
  char path[PATH_MAX];

  int walk(int directory, size_t length, uint32_t depth) {
    return forEachPath(directory, path, length, [&](const char* name, size_t size) {
      if (left > 0 && size > 0) return one(directory, name, size, depth);
      ++left_out;
      return 0;
    });
  }

  int one(int directory, const char* name, size_t length, uint32_t depth) {
    struct stat st;
    // The entry may have been removed since its directory was read.
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    --left;
    if (const int error = the_answer.entry({path, length}, st); error != 0) return error;
    if (!S_ISDIR(st.st_mode) || depth <= 1) return 0;
    const Fd inner(openBeneath(directory, name, O_RDONLY | O_DIRECTORY));
    if (!inner) {
      ++left_out;
      return 0;
    }
    return walk(inner.get(), length, depth - 1);
  }
};

int listPlace(int workspace, char** argv) {
  static Listing listing;
  uint64_t depth = 0;
  Fd fd;
  if (number(argv[2], depth) != 0 || number(argv[3], listing.left) != 0) return EINVAL;
  if (const int error = openPlace(workspace, argv[1], O_RDONLY | O_DIRECTORY, fd); error != 0)
    return error;
  const auto deep = static_cast<uint32_t>(std::min<uint64_t>(depth, kMaxDepth));
  if (const int error = listing.walk(fd.get(), 0, deep); error != 0) return error;
  return the_answer.end(listing.left_out);
}

int clockPlace(int /*workspace*/, char** /*argv*/) {
  struct stat now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now.st_mtim);  // the clock of file systems
  return the_answer.entry("", now);
}

// The change time is decisive: a program cannot set a change time.
struct Changes {
  int64_t since;  // microseconds
  char** globs;
  uint64_t left;
  uint32_t left_out = 0;
  char path[PATH_MAX];

  int walk(int directory, size_t length, uint32_t depth) {
    return forEachPath(directory, path, length, [&](const char* name, size_t size) {
      if (size > 0) return one(directory, name, size, depth);
      ++left_out;
      return 0;
    });
  }

  int one(int directory, const char* name, size_t length, uint32_t depth) {
    struct stat st;
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    if (S_ISDIR(st.st_mode)) {
      const Fd inner(depth <= 1 ? -1 : openBeneath(directory, name, O_RDONLY | O_DIRECTORY));
      return inner ? walk(inner.get(), length, depth - 1) : 0;
    }
    if (!S_ISREG(st.st_mode) || !wanted({path, length}, st)) return 0;
    if (left == 0) {
      ++left_out;
      return 0;
    }
    --left;
    return the_answer.entry({path, length}, st);
  }

  [[nodiscard]] bool wanted(std::string_view name, const struct stat& st) const {
    constexpr int64_t kMicros = 1'000'000;
    if (st.st_ctim.tv_sec * kMicros + st.st_ctim.tv_nsec / 1000 < since) return false;
    for (char** glob = globs; *glob != nullptr; ++glob) {
      if (globMatch(*glob, name)) return true;
    }
    return false;
  }
};

int changedPlace(int workspace, char** argv) {
  static Changes changes;
  uint64_t since = 0;
  Fd fd;
  if (number(argv[1], since) != 0 || number(argv[2], changes.left) != 0) return EINVAL;
  if (const int error = openPlace(workspace, "", O_RDONLY | O_DIRECTORY, fd); error != 0)
    return error;
  changes.since = static_cast<int64_t>(since);
  changes.globs = argv + 3;
  if (const int error = changes.walk(fd.get(), 0, kMaxDepth); error != 0) return error;
  return the_answer.end(changes.left_out);
}

int readPlace(int workspace, char** argv) {
  uint64_t offset = 0;
  uint64_t length = 0;
  Fd fd;
  if (number(argv[2], offset) != 0 || number(argv[3], length) != 0) return EINVAL;
  // O_NONBLOCK: the requested file may be a FIFO.
  if (const int error = openPlace(workspace, argv[1], O_RDONLY | O_NONBLOCK | O_NOCTTY, fd);
      error != 0)
    return error;
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return errno;
  if (!S_ISREG(st.st_mode)) return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
  if (const int error = the_answer.entry("", st); error != 0) return error;
  const auto size = static_cast<uint64_t>(st.st_size);
  length = std::min(length, size - std::min(size, offset));
  while (length > 0) {
    const ssize_t n = pread(fd.get(), piece, std::min<uint64_t>(length, sizeof piece),
                            static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;  // the file became shorter
    if (const int error = the_answer.put({piece, static_cast<size_t>(n)}); error != 0) return error;
    offset += static_cast<uint64_t>(n);
    length -= static_cast<uint64_t>(n);
  }
  return 0;
}

int writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// All of stdin.
int takeInput(int fd) {
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : 0;
    if (const int error = writeAll(fd, {piece, static_cast<size_t>(n)}); error != 0) return error;
  }
}

// The requested mode, or else the mode of the existing file.
int modeFor(const Place& place, const char* text, mode_t& mode) {
  mode = 0644;
  struct stat st;
  if (*text == '\0') {
    if (fstatat(place.parent.get(), place.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(st.st_mode))
      mode = st.st_mode & 0777;
    return 0;
  }
  uint64_t value = 0;
  if (number(text, value) != 0 || value > 0777) return EINVAL;
  mode = static_cast<mode_t>(value);
  return 0;
}

// A new file in a directory, without a name if the kernel supports such files (gVisor does not).
// Otherwise with a temporary name, removed by this object, or by the runner if the process is
// killed.
struct Upload {
  int parent;
  char name[48];
  Fd fd;
  bool named = false;
  Noted noted;

  explicit Upload(int directory) : parent(directory) {
    snprintf(name, sizeof name, "%s%d", wire::files::kUploadName, getpid());
    fd.reset(openat(parent, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (fd || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT))
      return;
    if (!noted.removal(name)) {
      errno = ENOMEM;
      return;
    }
    fd.reset(openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600));
    named = static_cast<bool>(fd);
  }
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  ~Upload() {
    if (named) unlinkat(parent, name, 0);
  }

  // Replaces the file with the final name. Returns errno.
  int become(const char* final_name) {
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd.get());
    if (!named) {
      // A new file never has another name, so that watchers see a single event.
      if (linkat(AT_FDCWD, self, parent, final_name, AT_SYMLINK_FOLLOW) == 0) return 0;
      if (errno != EEXIST) return errno;
      if (!noted.removal(name)) return ENOMEM;
      if (linkat(AT_FDCWD, self, parent, name, AT_SYMLINK_FOLLOW) != 0) return errno;
    }
    named = renameat(parent, name, parent, final_name) != 0;
    return named ? errno : 0;
  }
};

// The file gets its name only when complete: an interrupted upload changes nothing.
int writePlace(int workspace, char** argv) {
  Place place;
  mode_t mode = 0;
  if (const int error = place.find(workspace, argv[1], true); error != 0) return error;
  if (const int error = modeFor(place, argv[2], mode); error != 0) return error;
  const int parent = place.parent.get();
  struct stat st;
  if (fstatat(parent, place.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
    return EISDIR;
  if (!noteBase(place.above())) return ENAMETOOLONG;
  Upload upload(parent);
  if (!upload.fd) return errno;
  if (const int error = takeInput(upload.fd.get()); error != 0) return error;
  if (fchmod(upload.fd.get(), modeOfBrought(mode)) != 0) return errno;
  if (const int error = upload.become(place.name); error != 0) return error;
  return tell(upload.fd.get(), "");
}

int appendPlace(int workspace, char** argv) {
  uint64_t offset = 0;
  Place place;
  if (number(argv[2], offset) != 0) return EINVAL;
  if (const int error = place.find(workspace, argv[1], offset == 0); error != 0) return error;
  const uint64_t make = offset == 0 ? O_CREAT : 0;
  const Fd fd(openBeneath(place.parent.get(), place.name, O_WRONLY | O_APPEND | O_NONBLOCK | make,
                          make != 0 ? 0644 : 0));
  struct stat st;
  if (!fd || fstat(fd.get(), &st) != 0) return errno;
  if (!S_ISREG(st.st_mode)) return EINVAL;
  if (static_cast<uint64_t>(st.st_size) != offset) return ESPIPE;
  if (const int error = takeInput(fd.get()); error != 0) return error;
  return tell(fd.get(), "");
}

int makeDirectory(int workspace, const char* text, Fd& fd) {
  Place place;
  if (const int error = place.find(workspace, text, true); error != 0) return error;
  if (mkdirat(place.parent.get(), place.name, 0755) != 0 && errno != EEXIST) return errno;
  fd.reset(openBeneath(place.parent.get(), place.name, O_RDONLY | O_DIRECTORY));
  return fd ? 0 : errno;
}

int makePlace(int workspace, char** argv) {
  Fd fd;
  if (const int error = makeDirectory(workspace, argv[1], fd); error != 0) return error;
  return tell(fd.get(), "");
}

}  // namespace

int removeTree(int parent, const char* name, uint32_t depth, uint32_t& most) {
  if (most == 0) return EBUSY;
  --most;
  if (unlinkat(parent, name, 0) == 0) return 0;
  if (errno != EISDIR) return errno;
  if (depth == 0) return ENAMETOOLONG;
  const Fd inner(openBeneath(parent, name, O_RDONLY | O_DIRECTORY));
  if (!inner) return errno;
  // Removal during reading may hide entries, and other processes may add some: repeat until the
  // directory is empty, or was seen empty this often and yet was not.
  constexpr int kMostEmptyLooks = 100;
  for (int empty_looks = 0;;) {
    bool any = false;
    lseek(inner.get(), 0, SEEK_SET);
    const int error = forEachEntry(inner.get(), [&](const char* entry) {
      any = true;
      const int failed = removeTree(inner.get(), entry, depth - 1, most);
      return failed == ENOENT ? 0 : failed;
    });
    if (error != 0) return error;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0) return 0;
    if (errno != ENOTEMPTY || (!any && ++empty_looks > kMostEmptyLooks)) return errno;
  }
}

namespace {

int removePlace(int workspace, char** argv) {
  Place place;
  if (const int error = place.find(workspace, argv[1]); error != 0) return error;
  const int parent = place.parent.get();
  uint32_t any_number = UINT32_MAX;
  if (std::strcmp(argv[2], "1") == 0) return removeTree(parent, place.name, kMaxDepth, any_number);
  if (unlinkat(parent, place.name, 0) == 0) return 0;
  if (errno != EISDIR) return errno;
  return unlinkat(parent, place.name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

int movePlace(int workspace, char** argv) {
  static Place from;
  static Place to;
  if (const int error = from.find(workspace, argv[1]); error != 0) return error;
  if (const int error = to.find(workspace, argv[2], true); error != 0) return error;
  const unsigned flags = std::strcmp(argv[3], "1") == 0 ? 0 : RENAME_NOREPLACE;
  if (syscall(SYS_renameat2, from.parent.get(), from.name, to.parent.get(), to.name, flags) == 0)
    return 0;
  const int error = errno;
  // The kernel compares the file systems before it looks for the file.
  struct stat st;
  const bool gone = fstatat(from.parent.get(), from.name, &st, AT_SYMLINK_NOFOLLOW) != 0;
  return error == EXDEV && gone ? errno : error;
}

int packPlace(int workspace, char** argv) {
  Fd fd;
  if (const int error = openPlace(workspace, argv[1], O_RDONLY | O_NONBLOCK | O_NOCTTY, fd);
      error != 0)
    return error;
  if (!noteBase(argv[1])) return ENAMETOOLONG;
  const char* slash = std::strrchr(argv[1], '/');
  return pack(fd.get(), slash == nullptr ? argv[1] : slash + 1, the_answer);
}

bool isRoot(const char* text) {
  return *text == '\0' || std::ranges::find(model::kFileRoots, std::string_view(text),
                                            &model::FileRoot::path) != std::end(model::kFileRoots);
}

int unpackPlace(int workspace, char** argv) {
  Fd fd;
  const int error = isRoot(argv[1]) ? openPlace(workspace, argv[1], O_RDONLY | O_DIRECTORY, fd)
                                    : makeDirectory(workspace, argv[1], fd);
  if (error != 0) return error;
  uint32_t left_out = 0;
  if (const int failed = unpack(fd.get(), left_out); failed != 0) return failed;
  return the_answer.end(left_out);
}

int openHome(Fd& fd) {
  return openPlace(-1, model::kHome.data(), O_RDONLY | O_DIRECTORY, fd);
}

int restorePlace(int workspace, char** /*argv*/) {
  Fd home;
  if (const int error = openHome(home); error != 0) return error;
  uint32_t left_out = 0;
  if (const int failed = unpackSaved(workspace, home.get(), left_out); failed != 0) return failed;
  return the_answer.end(left_out);
}

int connectPlace(int /*workspace*/, char** argv) {
  uint64_t port = 0;
  if (number(argv[1], port) != 0 || port == 0 || port > UINT16_MAX) return EINVAL;
  return connectTo(static_cast<uint16_t>(port), the_answer);
}

int toolsPlace(int /*workspace*/, char** /*argv*/) {
  return serveTools(the_answer);
}

int watchPlace(int workspace, char** argv) {
  uint64_t most = 0;
  if (number(argv[3], most) != 0 || most == 0 || most > wire::files::kMostWatched) return EINVAL;
  const char* path = argv[1];
  const RootOf root(workspace, path);
  if (root.fd() < 0) return errno;
  if (*path != '\0' && !isPlainPath(path)) return EINVAL;
  return watchTree(root.fd(), path, std::strcmp(argv[2], "1") == 0, static_cast<uint32_t>(most),
                   the_answer);
}

int savePlace(int workspace, char** /*argv*/) {
  if (const int error = stopRest(); error != 0) {
    continueRest();
    return error;
  }
  Fd whole;
  Fd home;
  int error = openPlace(workspace, "", O_RDONLY | O_DIRECTORY, whole);
  if (error == 0) error = openHome(home);
  if (error == 0) error = packSaved(whole.get(), home.get(), the_answer);
  const int late = anyStarted() ? EAGAIN : 0;
  continueRest();
  return error != 0 ? error : late;
}

int stateOf(int workspace, char** bounds) {
  uint64_t bytes = 0;
  uint64_t files = 0;
  if (number(bounds[0], bytes) != 0 || number(bounds[1], files) != 0) return EINVAL;
  Fd home;
  if (const int error = openHome(home); error != 0) return error;
  return tellState(workspace, home.get(), bytes, files, the_answer);
}

int statePlace(int workspace, char** argv) {
  return stateOf(workspace, argv + 1);
}

// All other programs are stopped, or none exists; holds until stdin ends.
int holdPlace(int workspace, char** argv) {
  if (std::strcmp(argv[1], wire::files::kHoldFrozen) != 0 && anyOther()) return EBUSY;
  if (const int error = stateOf(workspace, argv + 2); error != 0) return error;
  if (const int error = the_answer.flush(); error != 0) return error;
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
    if (n == 0) return 0;
    if (n < 0 && errno != EINTR) return errno;
  }
}

constexpr int kAtLeast = -100;  // offset that marks a number of arguments as a minimum

struct Request {
  std::string_view verb;
  int arguments;
  int (*serve)(int workspace, char** argv);
};

constexpr Request kRequests[] = {{"stat", 1, statPlace},
                                 {"list", 3, listPlace},
                                 {"read", 3, readPlace},
                                 {"write", 2, writePlace},
                                 {"append", 2, appendPlace},
                                 {"mkdir", 1, makePlace},
                                 {"remove", 2, removePlace},
                                 {"move", 3, movePlace},
                                 {"pack", 1, packPlace},
                                 {"unpack", 1, unpackPlace},
                                 {"save", 0, savePlace},
                                 {wire::files::kRestore, 0, restorePlace},
                                 {"connect", 1, connectPlace},
                                 {"watch", 3, watchPlace},
                                 {"tools", 0, toolsPlace},
                                 {"state", 2, statePlace},
                                 {wire::files::kHold, 3, holdPlace},
                                 {"clock", 0, clockPlace},
                                 {"changed", kAtLeast + 2, changedPlace}};

int serve(int workspace, char** argv) {
  int arguments = -1;
  while (argv[arguments + 1] != nullptr)
    ++arguments;
  const auto* const request =
      std::ranges::find_if(kRequests, [&](const Request& r) { return r.verb == argv[0]; });
  if (request == std::end(kRequests)) return ENOSYS;
  const bool fits = request->arguments >= 0 ? request->arguments == arguments
                                            : arguments >= request->arguments - kAtLeast;
  if (!fits) return ENOSYS;
  return request->serve(workspace, argv);
}

}  // namespace

int serveFiles(int workspace, char** argv) {
  int error = serve(workspace, argv);
  if (error == 0) error = the_answer.flush();
  if (error == 0) return 0;
  char text[64];
  wire::Writer w(text, sizeof text);
  w.u32(static_cast<uint32_t>(error));
  w.bytes(argv[0]);
  [[maybe_unused]] const ssize_t told = write(STDERR_FILENO, w.view().data(), w.view().size());
  return wire::files::kFailed;
}

}  // namespace cloister::runner

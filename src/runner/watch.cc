// SPDX-License-Identifier: Apache-2.0
#include "runner/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include <stdio.h>
#include <time.h>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/directory.h"
#include "runner/watched.h"

namespace cloister::runner {
namespace {

using wire::files::ChangeKind;
using wire::files::kMaxDepth;
using wire::files::kMostLimits;
using wire::files::kUploadName;

constexpr uint32_t kMask = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM |
                           IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR |
                           IN_EXCL_UNLINK;
constexpr int kOtherHalf = 2;       // ms for the second half of a move to come
constexpr long kPause = 5'000'000;  // ns between two looks: the kernel merges equal events
constexpr size_t kOneEvent = sizeof(inotify_event) + NAME_MAX + 1;

bool isUpload(const char* name) {
  return std::strncmp(name, kUploadName, sizeof kUploadName - 1) == 0;
}

// An event with a copied name: the read buffer may be filled again.
struct Noted {
  int wd;
  uint32_t mask;
  uint32_t cookie;
  char name[NAME_MAX + 1];

  [[nodiscard]] bool directory() const { return (mask & IN_ISDIR) != 0; }
  [[nodiscard]] bool upload() const { return !directory() && isUpload(name); }
};

// Events of inotify not yet handled.
class Events {
 public:
  void from(int fd) { fd_ = fd; }

  // Waits for some; `patience` in ms, -1 for ever. Returns errno, EAGAIN for none.
  int more(int patience) {
    if (begin_ > 0) std::memmove(bytes_, bytes_ + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (sizeof bytes_ - end_ < kOneEvent) return EAGAIN;
    pollfd ready{fd_, POLLIN, 0};
    const int n = poll(&ready, 1, patience);
    if (n <= 0) return n == 0 || errno == EINTR ? EAGAIN : errno;
    const ssize_t got = read(fd_, bytes_ + end_, sizeof bytes_ - end_);
    if (got < 0) return errno == EINTR ? EAGAIN : errno;
    end_ += static_cast<size_t>(got);
    return 0;
  }

  bool next(Noted& noted) {
    if (begin_ == end_) return false;
    const size_t at = begin_;
    begin_ += take(at, noted);
    return true;
  }

  // Finds and removes the other half of a move.
  bool findMovedTo(uint32_t cookie, Noted& noted) {
    for (size_t at = begin_; at < end_;) {
      const size_t here = at;
      at += take(here, noted);
      if ((noted.mask & IN_MOVED_TO) == 0 || noted.cookie != cookie) continue;
      const int none = 0;
      std::memcpy(bytes_ + here + offsetof(inotify_event, wd), &none, sizeof none);
      return true;
    }
    return false;
  }

 private:
  // Returns its length.
  size_t take(size_t at, Noted& noted) const {
    inotify_event event;
    std::memcpy(&event, bytes_ + at, sizeof event);
    noted.wd = event.wd;
    noted.mask = event.mask;
    noted.cookie = event.cookie;
    const size_t length = event.len < sizeof noted.name ? event.len : sizeof noted.name;
    std::memcpy(noted.name, bytes_ + at + sizeof event, length);
    noted.name[length < sizeof noted.name ? length : length - 1] = '\0';
    return sizeof event + event.len;
  }

  int fd_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  char bytes_[65'536];
};

WatchedTree tree;

class Watch {
 public:
  // Returns errno.
  int run(int workspace, const char* root, int inotify, bool all, Answer& answer) {
    workspace_ = workspace;
    root_ = root;
    inotify_ = inotify;
    all_ = all;
    answer_ = &answer;
    events_.from(inotify);
    if (const int error = watchRoot(); error != 0) return error;
    if (const int error = look(0, false); error != 0) return error;
    if (const int error = tell(ChangeKind::kReady, true, 0, ""); error != 0) return error;
    return untilGone();
  }

 private:
  // These return errno.
  int untilGone() {
    while (!over_) {
      if (const int error = answer_->flush(); error != 0) return error;
      if (const int error = events_.more(-1); error != 0 && error != EAGAIN) return error;
      modified_.wd = 0;
      for (Noted noted; !over_ && events_.next(noted);) {
        if (const int error = handle(noted); error != 0) return error;
      }
      const timespec pause{0, kPause};
      nanosleep(&pause, nullptr);
    }
    return answer_->end(0);
  }

  int watchRoot() {
    const Fd root = open("");
    if (!root) return errno;
    const int wd = add(root.get());
    if (wd < 0) return errno == ENOSPC ? EUSERS : errno;  // not the file system's space
    tree.add(wd, 0, "");
    return 0;
  }

  // Keeps no directory open: the kernel reports a removal only when no process has the directory
  // open.
  [[nodiscard]] Fd open(const char* path) const {
    static char whole[PATH_MAX];
    const char* slash = *root_ == '\0' || *path == '\0' ? "" : "/";
    const int length = snprintf(whole, sizeof whole, "%s%s%s", root_, slash, path);
    if (length < 0 || static_cast<size_t>(length) >= sizeof whole) {
      errno = ENAMETOOLONG;
      return {};
    }
    return Fd(openBeneath(workspace_, length == 0 ? "." : whole, O_RDONLY | O_DIRECTORY));
  }

  // Opens a directory of the tree by its path. If the path leads elsewhere, errno is ENOENT: the
  // directory or a parent was moved, and the event is still queued. The directory is then marked,
  // and lookAgain() handles the directory after the event.
  Fd openPlace(int at) {
    static char path[PATH_MAX];
    if (tree.path(at, "", path, sizeof path) == 0) return errno = ENAMETOOLONG, Fd();
    Fd directory = open(path);
    if (directory && !is(directory.get(), at)) {
      directory.reset();
      errno = ENOENT;
    }
    if (!directory && gone(errno)) tree.miss(at, true);
    return directory;
  }

  // Whether the open directory is the directory of `place`. The kernel has a single watch
  // descriptor for a directory, whatever its name.
  [[nodiscard]] bool is(int directory, int place) const {
    const int wd = add(directory);
    if (wd > 0 && tree.find(wd) == WatchedTree::kNone) inotify_rm_watch(inotify_, wd);
    return wd > 0 && wd == tree.wd(place);
  }

  // Watches an open directory. -1 with errno.
  [[nodiscard]] int add(int directory) const {
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", directory);
    return inotify_add_watch(inotify_, self, kMask);
  }

  void drop(int at) {
    tree.drop(at, [this](int wd) { inotify_rm_watch(inotify_, wd); });
  }

  int tell(ChangeKind kind, bool directory, int at, std::string_view name) {
    static char path[PATH_MAX];
    const size_t length = tree.path(at, name, path, sizeof path);
    if (length == 0) return limit(0, "");  // moved to a place without a path
    return answer_->change(kind, directory, {path, length - 1}, "");
  }

  int limit(int at, std::string_view name) {
    if (limits_ > kMostLimits) return 0;
    ++limits_;
    if (limits_ > kMostLimits) return answer_->change(ChangeKind::kLimit, true, "", "");
    static char path[PATH_MAX];
    const size_t length = tree.path(at, name, path, sizeof path);
    return answer_->change(ChangeKind::kLimit, true, {path, length == 0 ? 0 : length - 1}, "");
  }

  int look(int at, bool fresh) {
    const Fd directory = openPlace(at);
    if (!directory) return gone(errno) ? 0 : limit(at, "");
    return look(directory.get(), at, fresh);
  }

  // Reads a directory to watch its subdirectories and, if new, to report its entries.
  int look(int directory, int at, bool fresh) {
    if (!all_ && !fresh) return 0;
    tree.miss(at, false);
    const int error = forEachEntry(directory, [&](const char* name) {
      struct stat st;
      if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
      const bool inner = S_ISDIR(st.st_mode);
      if (fresh && (inner || !isUpload(name))) {
        if (const int error = tell(ChangeKind::kCreated, inner, at, name); error != 0) return error;
      }
      return inner ? enter(directory, at, name, fresh) : 0;
    });
    return error == ENOENT ? 0 : error;  // removed during reading
  }

  // Watches the directory `name` of the directory `parent`, and its content; by descriptor, since
  // the directory may already have another name.
  int enter(int parent, int at, const char* name, bool fresh) {
    if (!all_) return 0;
    if (tree.depth(at) + 1 >= kMaxDepth) return limit(at, name);
    const Fd directory(openBeneath(parent, name, O_RDONLY | O_DIRECTORY));
    if (!directory) return gone(errno) ? 0 : limit(at, name);
    if (const int error = makeWay(directory.get(), at, name, fresh); error != 0) return error;
    const int wd = add(directory.get());
    if (wd < 0) return gone(errno) ? 0 : limit(at, name);
    int place = tree.find(wd);
    if (place == WatchedTree::kNone) {
      place = tree.add(wd, at, name);
      if (place == WatchedTree::kNone) {
        inotify_rm_watch(inotify_, wd);
        return limit(at, name);
      }
    } else if (!tree.isAt(place, at, name)) {
      // The directory was moved, and the event is still queued.
      if (tree.beneath(at, place)) return 0;
      const int error = fresh ? tell(ChangeKind::kRemoved, true, place, "") : 0;
      if (error != 0) return error;
      tree.place(place, at, name);
    }
    tree.see(place);
    return look(directory.get(), place, fresh);
  }

  // Drops another directory that had this name before the open directory.
  int makeWay(int directory, int at, const char* name, bool fresh) {
    const int other = tree.child(at, name);
    if (other == WatchedTree::kNone || is(directory, other)) return 0;
    drop(other);
    if (!fresh) return 0;
    if (const int error = tell(ChangeKind::kRemoved, true, at, name); error != 0) return error;
    return tell(ChangeKind::kCreated, true, at, name);
  }

  // As enter(), by the path of `at`.
  int enter(int at, const char* name, bool fresh) {
    if (!all_) return 0;
    const Fd parent = openPlace(at);
    if (!parent) return gone(errno) ? 0 : limit(at, name);
    return enter(parent.get(), at, name, fresh);
  }

  // Handles directories skipped by openPlace(), in and beneath a directory with a new path.
  int lookAgain(int above) {
    int error = 0;
    for (int at = tree.nextMissed(0, above); error == 0 && at != WatchedTree::kNone;
         at = tree.nextMissed(at + 1, above)) {
      tree.miss(at, false);
      const Fd directory = openPlace(at);
      if (!directory) continue;
      error = forEachEntry(directory.get(),
                           [&](const char* name) { return find(directory.get(), at, name); });
      if (error == ENOENT) error = 0;  // removed during reading
    }
    return error;
  }

  // Reports the directory `name` and enters the directory, unless known there.
  int find(int parent, int at, const char* name) {
    const Fd directory(openBeneath(parent, name, O_RDONLY | O_DIRECTORY));
    if (!directory) return gone(errno) ? 0 : limit(at, name);
    const int known = tree.child(at, name);
    if (known != WatchedTree::kNone && is(directory.get(), known)) return 0;
    if (const int error = tell(ChangeKind::kCreated, true, at, name); error != 0) return error;
    return enter(parent, at, name, true);
  }

  static bool gone(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

  int handle(const Noted& noted) {
    if ((noted.mask & IN_Q_OVERFLOW) != 0) return overflow();
    const int at = tree.find(noted.wd);
    if (at == WatchedTree::kNone) return 0;
    if (noted.name[0] == '\0') return handleSelf(noted, at);
    if ((noted.mask & (IN_MODIFY | IN_ATTRIB)) != 0) return modified(noted, at);
    modified_.wd = 0;
    if ((noted.mask & IN_MOVED_FROM) != 0) return movedFrom(noted, at);
    if ((noted.mask & (IN_CREATE | IN_MOVED_TO)) != 0) return appeared(noted, at);
    return (noted.mask & IN_DELETE) != 0 ? disappeared(noted, at) : 0;
  }

  int handleSelf(const Noted& noted, int at) {
    if (at == 0) {
      if ((noted.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) == 0) return 0;
      over_ = true;
      return tell(ChangeKind::kRemoved, true, 0, "");
    }
    // The directory above reports the removal.
    if ((noted.mask & (IN_IGNORED | IN_DELETE_SELF)) != 0) drop(at);
    return 0;
  }

  int modified(const Noted& noted, int at) {
    if (noted.upload()) return 0;
    if (modified_.wd == noted.wd && std::strcmp(modified_.name, noted.name) == 0) return 0;
    modified_ = noted;
    return tell(ChangeKind::kModified, noted.directory(), at, noted.name);
  }

  int appeared(const Noted& noted, int at) {
    if (noted.upload()) return 0;
    if (const int error = tell(ChangeKind::kCreated, noted.directory(), at, noted.name); error != 0)
      return error;
    return noted.directory() ? enter(at, noted.name, true) : 0;
  }

  int disappeared(const Noted& noted, int at) {
    if (noted.upload()) return 0;
    if (noted.directory()) forget(at, noted.name);
    return tell(ChangeKind::kRemoved, noted.directory(), at, noted.name);
  }

  void forget(int at, const char* name) {
    if (const int place = tree.child(at, name); place != WatchedTree::kNone) drop(place);
  }

  int movedFrom(const Noted& from, int at) {
    static Noted to;
    bool found = events_.findMovedTo(from.cookie, to);
    if (!found && events_.more(kOtherHalf) == 0) found = events_.findMovedTo(from.cookie, to);
    const int target = found ? tree.find(to.wd) : WatchedTree::kNone;
    if (target == WatchedTree::kNone) return disappeared(from, at);
    if (from.upload()) return tell(ChangeKind::kModified, false, target, to.name);
    if (from.directory() && all_) return moveDirectory(from, at, to, target);
    return tellMoved(from, at, to, target);
  }

  int tellMoved(const Noted& from, int at, const Noted& to, int target) {
    static char old[PATH_MAX];
    static char path[PATH_MAX];
    const size_t length = tree.path(at, from.name, old, sizeof old);
    const size_t new_length = tree.path(target, to.name, path, sizeof path);
    if (length == 0 || new_length == 0) return limit(0, "");
    return answer_->change(ChangeKind::kMoved, from.directory(), {path, new_length - 1},
                           {old, length - 1});
  }

  // Names may already lead to other directories, whose own events are still queued. So compare the
  // directory at the new name with the directory known by the old name.
  int moveDirectory(const Noted& from, int at, const Noted& to, int target) {
    const int place = tree.child(at, from.name);
    if (place != WatchedTree::kNone && tree.beneath(target, place)) {
      drop(place);  // our tree no longer matches the file system
      return overflow();
    }
    const Fd parent = openPlace(target);
    const Fd moved(parent ? openBeneath(parent.get(), to.name, O_RDONLY | O_DIRECTORY) : -1);
    if (place != WatchedTree::kNone && moved && !is(moved.get(), place)) {
      drop(place);
      if (const int error = tell(ChangeKind::kRemoved, true, at, from.name); error != 0)
        return error;
      if (const int error = find(parent.get(), target, to.name); error != 0) return error;
      const Fd source = openPlace(at);  // two may have been exchanged (renameat2(2))
      return source ? find(source.get(), at, from.name) : 0;
    }
    if (const int error = tellMoved(from, at, to, target); error != 0) return error;
    const int there = tree.child(target, to.name);
    if (there != WatchedTree::kNone && there != place && !(moved && is(moved.get(), there)))
      drop(there);
    if (place == WatchedTree::kNone || tree.wd(place) == 0) {  // moved before being watched
      return moved ? enter(parent.get(), target, to.name, true) : 0;
    }
    tree.place(place, target, to.name);
    return lookAgain(place);
  }

  int overflow() {
    limits_ = 0;
    modified_.wd = 0;
    if (const int error = answer_->change(ChangeKind::kOverflow, true, "", ""); error != 0)
      return error;
    tree.unsee();
    if (const int error = look(0, false); error != 0) return error;
    // Drops unseen directories. A directory moved meanwhile returns with its event.
    tree.sweep([this](int wd) { inotify_rm_watch(inotify_, wd); });
    return 0;
  }

  int workspace_ = 0;
  const char* root_ = nullptr;  // in the workspace
  int inotify_ = 0;
  bool all_ = false;
  bool over_ = false;
  uint32_t limits_ = 0;  // number reported since the last full look
  Noted modified_{};     // the last reported, to avoid repeats
  Events events_;
  Answer* answer_ = nullptr;
};

// All zero at first, which costs no memory until use.
Watch the_watch;

}  // namespace

int watchTree(int workspace, const char* path, bool all, uint32_t most, Answer& answer) {
  const Fd inotify(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify) return errno;
  tree.bound(most);
  return the_watch.run(workspace, path, inotify.get(), all, answer);
}

}  // namespace cloister::runner

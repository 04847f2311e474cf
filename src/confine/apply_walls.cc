// SPDX-License-Identifier: Apache-2.0
#include "confine/apply_walls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <memory>
#include <vector>

#include <dirent.h>

#include "base/glob.h"
#include "confine/image_links.h"
#include "confine/mount_plan.h"
#include "linux/message.h"
#include "linux/mounts.h"
#include "linux/paths.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

using base::globMatches;
using model::Walls;

constexpr size_t kMaxSeen = 20'000;  // limit of files examined for a pattern
constexpr size_t kMaxKept = 800;     // limit of programs kept by a level in an image
constexpr int kMaxLinks = 40;        // as the kernel follows; path_resolution(7)

struct Closer {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using Dir = std::unique_ptr<DIR, Closer>;

bool isDots(std::string_view name) {
  return name == "." || name == "..";
}

// The entries of the directory at `fd`. An unreadable directory gives no entries: the programs to
// be kept from its files cannot list the directory either.
std::vector<std::string> entriesOf(int fd) {
  std::vector<std::string> names;
  Fd readable(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Dir dir(readable ? ::fdopendir(readable.get()) : nullptr);
  if (!dir) return names;
  std::ignore = readable.release();
  while (const dirent* entry = ::readdir(dir.get())) {
    if (!isDots(entry->d_name)) names.emplace_back(entry->d_name);
  }
  return names;
}

std::string linkAt(int fd) {
  char to[PATH_MAX];
  const ssize_t n = ::readlinkat(fd, "", to, sizeof to);
  return n > 0 ? std::string(to, static_cast<size_t>(n)) : std::string();
}

struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  mode_t mode = 0;
  nlink_t links = 0;

  static Identity of(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) return {};
    return {status.st_dev, status.st_ino, status.st_mode, status.st_nlink};
  }
  [[nodiscard]] bool same(const Identity& other) const {
    return device == other.device && inode == other.inode;
  }
};

// A root directory in which paths are hidden.
class WalledRoot {
 public:
  static Result<WalledRoot> at(const std::string& path) {
    WalledRoot root;
    root.root_.reset(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.root_) return failErrno("opening " + path);
    for (const auto& [path_of, fd] :
         {std::pair(kMaskFile, &root.file_), std::pair(kMaskDirectory, &root.directory_)}) {
      fd->reset(::open(path_of, O_PATH | O_CLOEXEC));
      if (!*fd) return failErrno(std::string("opening ") + path_of);
    }
    return root;
  }

  // Behind every link; no descriptor where there is nothing.
  [[nodiscard]] Fd find(const std::string& path, int flags = 0, bool follow = true) const {
    return linux::findInRoot(root_.get(), path, flags, follow);
  }

  // Hides `path` except for the paths in `shown`. No path in `shown` is beneath another.
  [[nodiscard]] Result<> hide(const std::string& path,
                              const std::vector<std::string>& shown) const {
    std::vector<std::string> within;
    for (const std::string& each : shown) {
      if (path == each || path.starts_with(each + "/")) return {};
      if (each.starts_with(path + "/")) within.push_back(each);
    }
    const Fd target = find(path);
    if (!target) return {};
    return within.empty() ? hide(target.get()) : cover(target.get(), path, within);
  }

  [[nodiscard]] Result<> hide(int target) const {
    const Identity what = Identity::of(target);
    const Fd& mask = S_ISDIR(what.mode) ? directory_ : file_;
    if (what.same(Identity::of(mask.get()))) return {};  // by another name
    const Fd mount = TRY(linux::cloneMountAt(mask.get()));
    return linux::attachMountAt(mount.get(), target);
  }

 private:
  // Mounts a directory that nobody can list over the directory at `path`, with the entries of
  // `shown` bound into it. Mounts that hide paths within those entries are kept.
  [[nodiscard]] Result<> cover(int target, const std::string& path,
                               const std::vector<std::string>& shown) const {
    std::vector<std::pair<std::string, Fd>> kept;
    for (const std::string& each : shown) {
      const Fd what = find(each);
      if (what)
        kept.emplace_back(each.substr(path.size() + 1), TRY(linux::cloneMountAt(what.get(), true)));
    }
    const Fd fresh = TRY(linux::newFilesystem(
        "tmpfs", "tmpfs", {{"size", "64k"}, {"nr_inodes", "4096"}, {"mode", "711"}},
        linux::kNoSuid | linux::kNoDev | linux::kNoExec));
    TRY(linux::attachMountAt(fresh.get(), target));
    for (const auto& [name, mount] : kept) {
      const Fd spot = TRY(makeSpot(fresh.get(), name, S_ISDIR(Identity::of(mount.get()).mode)));
      TRY(linux::attachMountAt(mount.get(), spot.get()));
    }
    // The sandbox's user owns the directory where the sandbox has a single user id, so remove the
    // owner's read and write permission too.
    if (::fchmodat(fresh.get(), ".", 0111, 0) != 0) return failErrno("chmod");
    return linux::addAttributes(fresh.get(), linux::kReadOnly);
  }

  // Creates an empty file or directory, with all parent directories.
  static Result<Fd> makeSpot(int root, const std::string& name, bool directory) {
    Fd at(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (size_t begin = 0; at && begin < name.size();) {
      const size_t end = std::min(name.find('/', begin), name.size());
      const std::string part = name.substr(begin, end - begin);
      begin = end + 1;
      if (end == name.size() && !directory) {
        at = Fd(::openat(at.get(), part.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0));
        break;
      }
      if (::mkdirat(at.get(), part.c_str(), 0711) != 0 && errno != EEXIST) at.reset();
      if (at)
        at = Fd(::openat(at.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    }
    if (!at) return failErrno("making a place for " + name);
    return at;
  }

  Fd root_;
  Fd file_;
  Fd directory_;
};

// ---- paths

// Whether something beneath the directory may be of the form.
bool mayLeadTo(const std::string& pattern, const std::string& directory) {
  const std::string fixed = pattern.substr(0, pattern.find('*'));
  const std::string beneath = directory + "/";
  return fixed.starts_with(beneath) || beneath.starts_with(fixed);
}

// Hides the path if the pattern matches. DIRECTORY/* also hides DIRECTORY, so that its file names
// are hidden too → whether the path was hidden.
Result<bool> hideIfMatching(const WalledRoot& root, const std::string& pattern,
                            const std::string& path, const std::vector<std::string>& shown) {
  const std::string whole = pattern.ends_with("/*") ? pattern.substr(0, pattern.size() - 2) : "";
  if (!globMatches(pattern, path) && !globMatches(whole, path)) return false;
  TRY(root.hide(path, shown));
  return true;
}

// Hides every matching path beneath the pattern's fixed directory.
Result<> hideMatching(const WalledRoot& root, const std::string& pattern,
                      const std::vector<std::string>& shown) {
  const size_t deep = pattern.rfind('/', pattern.find('*'));
  std::vector<std::string> todo = {pattern.substr(0, deep)};
  for (size_t seen = 0; !todo.empty();) {
    const std::string place = std::move(todo.back());
    todo.pop_back();
    const Fd dir = root.find(place, O_DIRECTORY);
    if (!dir) continue;
    for (const std::string& name : entriesOf(dir.get())) {
      if (++seen > kMaxSeen) {
        return fail(Code::kUnsupported,
                    "hiding " + pattern + ": there are more than " + std::to_string(kMaxSeen) +
                        " files to compare with it; name a directory further down");
      }
      const std::string path = place + "/" + name;
      const Result<bool> hidden = hideIfMatching(root, pattern, path, shown);
      if (!hidden) return std::unexpected(hidden.error());
      if (*hidden || !mayLeadTo(pattern, path)) continue;
      const Fd entry(::openat(dir.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      if (S_ISDIR(Identity::of(entry.get()).mode)) todo.push_back(path);
    }
  }
  return {};
}

Result<> hidePath(const WalledRoot& root, const std::string& pattern,
                  const std::vector<std::string>& shown) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return root.hide(pattern, shown);
  if (pattern.ends_with("/*") && star == pattern.size() - 1) {
    return root.hide(pattern.substr(0, star - 1), shown);
  }
  return hideMatching(root, pattern, shown);
}

// The paths shown within the pattern, without paths beneath other shown paths.
std::vector<std::string> shownWithin(const Walls& walls, const std::string& pattern) {
  std::vector<std::string> paths;
  for (const Walls::Shown& each : walls.shown) {
    if (each.within == pattern) paths.push_back(each.path);
  }
  std::ranges::sort(paths);
  std::vector<std::string> highest;
  for (std::string& path : paths) {
    const bool beneath = std::ranges::any_of(
        highest, [&](const std::string& above) { return path.starts_with(above + "/"); });
    if (!beneath) highest.push_back(std::move(path));
  }
  return highest;
}

// ---- programs

class Programs {
 public:
  explicit Programs(const WalledRoot& root) : root_(root) {
    for (const std::string_view path : model::kProgramPlaces) {
      Fd dir = root_.find(std::string(path), O_DIRECTORY, false);
      if (!dir) continue;
      const Identity identity = Identity::of(dir.get());
      places_.push_back({std::string(path), std::move(dir), identity, {}});
    }
  }

  Result<> hide(const std::vector<std::string>& patterns) {
    std::vector<Identity> twins;  // programs with further hard links
    for (const Place& place : places_) {
      for (const std::string& name : entriesOf(place.dir.get())) {
        if (!matchesAny(patterns, name)) continue;
        const Fd program = root_.find(place.path + "/" + name);
        if (!program || isManyInOne(program.get())) continue;
        if (const Identity it = Identity::of(program.get()); it.links > 1) twins.push_back(it);
        TRY(root_.hide(program.get()));
      }
    }
    return twins.empty() ? Result<>() : hideTwins(twins);
  }

  Result<> keepOnly(const std::vector<std::string>& patterns) {
    for (Place& place : places_) {
      for (const std::string& name : entriesOf(place.dir.get())) {
        if (matchesAny(patterns, name)) TRY(keep(place, name));
      }
    }
    for (const Place& place : places_)
      TRY(cover(place));
    return {};
  }

 private:
  // An entry of the new directory: a symbolic link, or a mount point for a file of the old
  // directory.
  struct Kept {
    std::string link;
    Fd file;
  };
  struct Place {
    std::string path;
    Fd dir;
    Identity identity;
    std::map<std::string, Kept> kept;
  };

  static bool matchesAny(const std::vector<std::string>& patterns, const std::string& name) {
    return std::ranges::any_of(patterns,
                               [&](const std::string& glob) { return globMatches(glob, name); });
  }

  // The same files by their other names (link(2)): perl is perl5.36.0 too.
  Result<> hideTwins(const std::vector<Identity>& twins) {
    for (const Place& place : places_) {
      for (const std::string& name : entriesOf(place.dir.get())) {
        const Fd entry(::openat(place.dir.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        const Identity it = Identity::of(entry.get());
        const bool twin =
            std::ranges::any_of(twins, [&](const Identity& each) { return it.same(each); });
        if (twin) TRY(root_.hide(entry.get()));
      }
    }
    return {};
  }

  static bool isManyInOne(int program) { return runtime::isManyInOne(linux::nameOf(program)); }

  Result<> keep(Place& place, const std::string& name) {
    if (place.kept.contains(name)) return {};
    if (++count_ > kMaxKept) {
      return fail(Code::kUnsupported,
                  "keeping the programs of the level: the image has more than " +
                      std::to_string(kMaxKept) + " of them");
    }
    const Fd entry(::openat(place.dir.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    const mode_t mode = Identity::of(entry.get()).mode;
    if (S_ISREG(mode)) {
      place.kept[name].file = TRY(linux::cloneMountAt(entry.get()));
    } else if (S_ISLNK(mode)) {
      const std::string link = linkAt(entry.get());
      place.kept[name].link = link;
      return follow(place.path, link);
    }
    return {};
  }

  // Keeps the target of a link in directory `from` as well, if the target's directory is covered.
  Result<> follow(const std::string& from, const std::string& link) {
    std::string path = link.starts_with('/') ? link : from + "/" + link;
    for (int hops = 0; hops < kMaxLinks; ++hops) {
      const size_t slash = path.rfind('/');
      const std::string above = slash == 0 ? "/" : path.substr(0, slash);
      const std::string name = path.substr(slash + 1);
      const Fd dir = root_.find(above, O_DIRECTORY);
      if (!dir || name.empty() || isDots(name)) return {};
      const Identity identity = Identity::of(dir.get());
      const auto place = std::ranges::find_if(
          places_, [&](const Place& each) { return each.identity.same(identity); });
      if (place != places_.end()) return keep(*place, name);
      const Fd entry(::openat(dir.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      const std::string next = entry ? linkAt(entry.get()) : std::string();
      if (next.empty()) return {};  // nothing, or a file where nothing is covered
      path = next.starts_with('/') ? next : above + "/" + next;
    }
    return {};
  }

  // Mounts a new read-only directory with the kept entries over the old directory.
  static Result<> cover(const Place& place) {
    const Fd fresh = TRY(linux::newFilesystem(
        "tmpfs", "tmpfs",
        {{"size", "64k"}, {"nr_inodes", std::to_string(place.kept.size() + 8)}, {"mode", "755"}},
        linux::kNoSuid | linux::kNoDev));
    TRY(linux::attachMountAt(fresh.get(), place.dir.get()));
    for (const auto& [name, kept] : place.kept) {
      if (!kept.link.empty()) {
        if (::symlinkat(kept.link.c_str(), fresh.get(), name.c_str()) != 0) {
          return failErrno("linking " + name);
        }
      } else if (kept.file) {
        const Fd spot(
            ::openat(fresh.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
        if (!spot) return failErrno("making a place for " + name);
        TRY(linux::attachMountAt(kept.file.get(), spot.get()));
      }
    }
    return linux::addAttributes(fresh.get(), linux::kReadOnly);
  }

  const WalledRoot& root_;
  std::vector<Place> places_;
  size_t count_ = 0;
};

}  // namespace

Result<> applyWalls(const Walls& walls, const std::string& root_path) {
  const WalledRoot root = TRY(WalledRoot::at(root_path));
  for (const std::string& pattern : walls.hidden)
    TRY(hidePath(root, pattern, shownWithin(walls, pattern)));
  if (walls.without.empty() && !walls.only) return {};
  Programs programs(root);
  TRY(programs.hide(walls.without));
  return walls.only ? programs.keepOnly(*walls.only) : Result<>();
}

Result<Fd> sealWalls(const std::string& encoded) {
  return linux::sealedData(encoded);
}

Result<Walls> readWalls(int fd) {
  std::string bytes(2 * Walls::kMaxBytes, '\0');
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), 0);
  if (n < 0) return failErrno("reading the walls of an agent");
  bytes.resize(static_cast<size_t>(n));
  return wire::decodeWalls(bytes);
}

}  // namespace cloister::runtime

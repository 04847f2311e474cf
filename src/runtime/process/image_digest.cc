// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/image_digest.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include <dirent.h>

#include "base/crypto.h"
#include "base/file.h"
#include "linux/process.h"
#include "runtime/process/own_cache.h"

namespace cloister::runtime {
namespace {

constexpr size_t kMaxCache = size_t{256} << 20;
constexpr int kMaxDepth = 64;

Result<std::string> hashFile(int directory, const char* name) {
  const Fd fd(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failErrno(std::string("opening ") + name);
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  base::Sha256 hash;
  static char chunk[256 << 10];
  for (;;) {
    const ssize_t n = ::read(fd.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno(std::string("reading ") + name);
    if (n == 0) return hash.hex();
    hash.update({chunk, static_cast<size_t>(n)});
  }
}

// One walk over the trees: the manifest is hashed as it comes, the new cache is kept.
class Walk {
 public:
  explicit Walk(std::string_view old_cache) {
    // Lines of "STAMP SHA256 PATH"; stale ones are simply not found.
    while (!old_cache.empty()) {
      const std::string_view line = old_cache.substr(0, old_cache.find('\n'));
      old_cache.remove_prefix(std::min(line.size() + 1, old_cache.size()));
      const size_t first = line.find(' ');
      if (first == std::string_view::npos || line.size() < first + 66) continue;
      old_.emplace(line.substr(first + 66), line.substr(0, first + 65));
    }
  }

  Result<> tree(const std::string& root, const std::string& name) {
    const std::string path = root + "/" + name;
    const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return failErrno("opening " + path);
    return directory(fd.get(), name, 0);
  }

  [[nodiscard]] std::string digest() const { return "sha256:" + manifest_.hex(); }
  [[nodiscard]] const std::string& cache() const { return new_; }

 private:
  Result<> directory(int fd, const std::string& path, int depth) {
    if (depth > kMaxDepth) return fail(Code::kInternal, "digest: " + path + ": nested too deeply");
    std::vector<std::string> names;
    DIR* dir = ::fdopendir(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (dir == nullptr) return failErrno("listing " + path);
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(dir);
    std::ranges::sort(names);
    for (const std::string& name : names)
      TRY(entry(fd, name.c_str(), path + "/" + name, depth));
    return {};
  }

  Result<> entry(int parent, const char* name, const std::string& path, int depth) {
    struct stat status{};
    // Removed between listing and looking: as if it had not been listed.
    if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
    const bool readable = (status.st_mode & S_IROTH) != 0;
    if (S_ISDIR(status.st_mode)) {
      line('d', status, "-", path);
      const bool open = readable && (status.st_mode & S_IXOTH) != 0;
      const Fd fd(open ? ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1);
      return fd ? directory(fd.get(), path, depth + 1) : Result<>();
    }
    if (S_ISLNK(status.st_mode)) {
      char target[4096];
      const ssize_t n = ::readlinkat(parent, name, target, sizeof target);
      const std::string_view text(target, n > 0 ? static_cast<size_t>(n) : 0);
      line('l', status, base::sha256Hex(text), path);
    } else if (S_ISREG(status.st_mode)) {
      line('f', status, readable ? TRY(content(parent, name, path, status)) : "-", path);
    }
    return {};
  }

  Result<std::string> content(int parent, const char* name, const std::string& path,
                              const struct stat& status) {
    const std::string key = stampOf(status);
    const auto known = old_.find(path);
    std::string hash;
    if (known != old_.end() && known->second.starts_with(key + " ")) {
      hash = known->second.substr(key.size() + 1);
    } else {
      hash = TRY(hashFile(parent, name));
    }
    if (!path.contains('\n'))
      new_.append(key).append(" ").append(hash).append(" ").append(path) += '\n';
    return hash;
  }

  void line(char type, const struct stat& status, std::string_view content,
            const std::string& path) {
    char head[64];
    const int64_t size = type == 'd' ? 0 : status.st_size;
    const int n = std::snprintf(head, sizeof head, "%c %o %lld ", type, status.st_mode & 07777U,
                                static_cast<long long>(size));
    manifest_.update({head, static_cast<size_t>(n)});
    manifest_.update(content);
    manifest_.update(" ");
    manifest_.update(path);
    manifest_.update("\n");
  }

  std::unordered_map<std::string, std::string> old_;
  std::string new_;
  base::Sha256 manifest_;
};

std::string cacheName(const std::string& image_root) {
  return "image-" + base::sha256Hex(image_root).substr(0, 16);
}

}  // namespace

std::vector<std::string> imageTrees(const std::string& image_root) {
  std::vector<std::string> trees;
  for (const char* name : {"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"}) {
    struct stat status{};
    const std::string path = image_root + "/" + name;
    if (::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) trees.emplace_back(name);
  }
  return trees;
}

Result<std::string> computeImageDigest(const std::string& image_root, const std::string& cache) {
  // Before the walk: what changes meanwhile must not count as seen.
  const std::string key = imageKey(image_root);
  const CachePlace place{cache, cachePlace(cacheName(image_root)).system};
  const std::string files = cache.empty() ? std::string() : readCached(place, ".files", kMaxCache);
  Walk walk(files);
  for (const std::string& name : imageTrees(image_root)) {
    auto walked = walk.tree(image_root, name);
    if (!walked) return std::unexpected(std::move(walked).error().within("image digest"));
  }
  if (!cache.empty()) {
    // Without a cache everything still works, only slower.
    std::ignore = base::makeDirs(cache.substr(0, cache.rfind('/')));
    if (walk.cache() != files) {
      std::ignore = base::writeFileAtomic(cache + ".files", walk.cache(), 0644);
    }
    std::ignore = base::writeFileAtomic(cache + ".digest", key + " " + walk.digest() + "\n", 0644);
  }
  return walk.digest();
}

std::string imageCachePath(const std::string& image_root) {
  return cachePlace(cacheName(image_root)).own;
}

std::string imageKey(const std::string& image_root) {
  static constexpr const char* kPlaces[] = {
      "/var/lib/dpkg/status",
      "/etc/ld.so.cache",
      "/etc/alternatives",
      "/etc/ssl/certs",
      "/usr",
      "/usr/bin",
      "/usr/lib",
      "/usr/lib/go",
      "/usr/lib/jvm",
      "/usr/lib/node_modules",
      "/usr/lib/python3/dist-packages",
      "/usr/lib/R/library",
      "/usr/lib/R/site-library",
      "/usr/lib/rustlib",
      "/usr/lib/x86_64-linux-gnu",
      "/usr/lib64",
      "/usr/libexec",
      "/usr/local/bin",
      "/usr/local/go",
      "/usr/local/lib",
      "/usr/local/lib/node_modules",
      "/usr/local/lib/R/site-library",
      "/usr/sbin",
      "/usr/share",
      "/usr/share/nodejs",
  };
  std::string text;
  const auto add = [&](const std::string& path) {
    struct stat status{};
    text += ::stat(path.c_str(), &status) == 0 ? stampOf(status) + ";" : ";";
  };
  for (const char* place : kPlaces)
    add(image_root + place);
  for (int minor = 8; minor < 20; ++minor) {
    add(image_root + "/usr/local/lib/python3." + std::to_string(minor) + "/dist-packages");
  }
  return base::sha256Hex(text);
}

std::string cachedImageDigest(const std::string& image_root, const std::string& key) {
  const std::string text = readCached(cachePlace(cacheName(image_root)), ".digest", 4096);
  std::istringstream words(text);
  std::string stored;
  std::string digest;
  words >> stored >> digest;
  return stored == key ? digest : std::string();
}

namespace {

[[noreturn]] void runJob(const std::string& image_root, bool idle, const Fd& output) {
  constexpr int kOutput = 3;
  const sched_param none{};
  if (!linux::dieWithParent() || !linux::moveFd(output.get(), kOutput) ||
      !linux::closeFrom(kOutput + 1)) {
    ::_exit(1);
  }
  if (idle) ::sched_setscheduler(0, SCHED_IDLE, &none);
  const auto digest = computeImageDigest(image_root, imageCachePath(image_root));
  const std::string text = digest ? *digest : "error: " + digest.error().message;
  std::ignore = ::write(kOutput, text.data(), text.size());
  ::_exit(0);
}

}  // namespace

Result<ImageDigestJob> ImageDigestJob::start(const std::string& image_root, bool idle) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  linux::Cloned child = TRY(linux::cloneProcess(0));
  if (child.pid == 0) runJob(image_root, idle, theirs);
  return ImageDigestJob(std::move(ours), std::move(child.pidfd));
}

ImageDigestJob::~ImageDigestJob() {
  if (!pidfd_) return;
  std::ignore = linux::signalPidfd(pidfd_.get(), SIGKILL);
  std::ignore = linux::reapPidfd(pidfd_.get());
}

Result<std::string> ImageDigestJob::parse(const std::string& text) {
  if (text.starts_with("sha256:")) return text;
  return fail(Code::kInternal, "image digest: " + (text.empty() ? "the process died" : text));
}

}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/image_digest.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <tuple>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "linux/process.h"
#include "linux/tree_digest.h"
#include "runtime/process/own_cache.h"

namespace cloister::runtime {
namespace {

constexpr size_t kMaxCache = size_t{256} << 20;
constexpr std::chrono::seconds kKeepEvery{5};

std::string cacheName(const std::string& image_root) {
  return "image-" + base::sha256Hex(image_root).substr(0, 16);
}

// What was read so far, before what was known: who ends in the midst does not begin anew.
void keepRegularly(linux::TreeDigest& trees, const std::string& known, const std::string& path) {
  trees.onRead([&trees, &known, path, kept_at = base::monotonicNow()]() mutable {
    if (base::monotonicNow() - kept_at < kKeepEvery) return;
    if (trees.cache().size() + known.size() > kMaxCache) return;
    std::ignore = base::writeFileAtomic(path, trees.cache() + known, 0644);
    kept_at = base::monotonicNow();
  });
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
  linux::TreeDigest trees(linux::TreeDigest::Of::kWhatOthersRead, files);
  // Without a cache everything still works, only slower.
  if (!cache.empty()) std::ignore = base::makeDirs(cache.substr(0, cache.rfind('/')));
  if (!cache.empty()) keepRegularly(trees, files, cache + ".files");
  for (const std::string& name : imageTrees(image_root)) {
    auto walked = trees.add(image_root, name);
    if (!walked) return std::unexpected(std::move(walked).error().within("image digest"));
  }
  if (!cache.empty()) {
    if (trees.cache() != files) {
      std::ignore = base::writeFileAtomic(cache + ".files", trees.cache(), 0644);
    }
    std::ignore = base::writeFileAtomic(cache + ".digest", key + " " + trees.digest() + "\n", 0644);
  }
  return trees.digest();
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
    text += ::stat(path.c_str(), &status) == 0 ? linux::stampOf(status) + ";" : ";";
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

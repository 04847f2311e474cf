// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/image_digest.h"

#include <sys/stat.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "confine/mount_plan.h"
#include "linux/tree_digest.h"
#include "model/escalation.h"
#include "model/image_name.h"
#include "sandbox/host/own_cache.h"

namespace cloister::runtime {
namespace {

constexpr size_t kMaxCache = size_t{256} << 20;
constexpr std::chrono::seconds kKeepEvery{5};
constexpr std::chrono::milliseconds kQuick{500};  // a walk so short that hardly any change can be
                                                  // missed
constexpr size_t kShownPath = 1024;               // bytes

std::string cacheName(const std::string& image_root) {
  return "image-" + base::sha256Hex(image_root).substr(0, 16);
}

// Saves entries read so far, ahead of the known entries, so that an interrupted reading resumes
// there.
void keepRegularly(linux::TreeDigest& trees, const std::string& known, const std::string& path) {
  trees.onRead([&trees, &known, path, kept_at = base::monotonicNow()]() mutable {
    if (base::monotonicNow() - kept_at < kKeepEvery) return;
    if (trees.cache().size() + known.size() > kMaxCache) return;
    std::ignore = base::writeFileAtomic(path, trees.cache() + known, 0644);
    kept_at = base::monotonicNow();
  });
}

// Walks over the trees until a walk finds no change. A long walk may miss changes behind its
// position, so a second walk, which reads no file, must find the same.
class Reading {
 public:
  Reading(const std::string& image_root, const std::string& cache, const ImageReading& how)
      : image_root_(image_root), cache_(cache), how_(how), since_(how.since * 1000) {}

  Result<ImageContent> run() {
    content_.key = imageKey(image_root_);  // taken before the walk, so that no later change counts
                                           // as seen
    if (!cache_.empty()) {
      // Without a cache everything still works, only slower.
      std::ignore = base::makeDirs(cache_.substr(0, cache_.rfind('/')));
      known_ = readCached({cache_, cachePlace(cacheName(image_root_)).system}, ".files", kMaxCache);
    }
    std::chrono::milliseconds pause = how_.first_pause;
    for (int walks = 1; !TRY(walk()); ++walks) {
      if (walks >= how_.most_walks) return kept("");
      if (!moving_) continue;
      std::this_thread::sleep_for(pause);
      pause *= 2;
    }
    return kept(std::exchange(content_.digest, {}));
  }

 private:
  // True when the digest is final.
  Result<bool> walk() {
    const auto begun = base::monotonicNow();
    if (how_.before_walk) how_.before_walk();
    linux::TreeDigest trees(
        linux::TreeDigest::Of::kWhatOthersRead, known_,
        {.threads = how_.threads, .since = since_, .closed = std::string(kLocalConfiguration)});
    if (!cache_.empty()) keepRegularly(trees, known_, cache_ + ".files");
    for (const std::string& name : imageTrees(image_root_)) {
      auto walked = trees.add(image_root_, name);
      if (!walked) return std::unexpected(std::move(walked).error().within("image digest"));
    }
    note(trees.seen());
    moving_ = !trees.settled();
    since_ = trees.begun();
    if (!cache_.empty() && trees.cache() != known_) {
      std::ignore = base::writeFileAtomic(cache_ + ".files", trees.cache(), 0644);
    }
    known_ = trees.cache();
    const bool quick = base::monotonicNow() - begun < kQuick;
    const bool same = std::exchange(content_.digest, trees.digest()) == trees.digest();
    return !moving_ && (quick || same);
  }

  static std::string shown(const std::string& path) {
    return "/" + model::safeText(path, kShownPath);
  }

  void note(const linux::TreeSeen& seen) {
    // The kernel's clock for timestamps lags behind: no change is later than this time.
    content_.changed_at = (seen.newest + linux::TreeDigest::kSettled) / 1000;
    content_.newest = shown(seen.newest_path);
    content_.files = seen.files;
    content_.files_read += seen.files_read;
    content_.bytes_read += seen.bytes_read;
    for (const std::string& path : seen.changed) {
      auto& all = content_.changed;
      std::string safe = shown(path);
      if (all.size() < linux::TreeSeen::kMostNamed && std::ranges::find(all, safe) == all.end()) {
        all.push_back(std::move(safe));
      }
    }
  }

  ImageContent kept(std::string digest) {
    content_.digest = std::move(digest);
    if (!cache_.empty() && !content_.digest.empty()) {
      const std::string text = content_.key + " " + content_.digest + " " +
                               std::to_string(content_.changed_at) + " " +
                               std::to_string(content_.files) + " " + content_.newest + "\n";
      std::ignore = base::writeFileAtomic(cache_ + ".digest", text, 0644);
    }
    return std::move(content_);
  }

  const std::string& image_root_;
  const std::string& cache_;
  const ImageReading& how_;
  ImageContent content_;
  std::string known_;
  int64_t since_;
  bool moving_ = false;  // something changed while the last walk was made, or shortly before
};

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

Result<ImageContent> readImage(const std::string& image_root, const std::string& cache,
                               const ImageReading& how) {
  return Reading(image_root, cache, how).run();
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
      "/usr/local",
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

std::string imagePlace(const std::string& image_root) {
  std::string text = image_root + ";";
  for (const char* name : {"/usr", "/bin"}) {
    struct stat status{};
    if (::stat((image_root + name).c_str(), &status) != 0) continue;
    text += std::to_string(status.st_dev) + "." + std::to_string(status.st_ino) + ";";
  }
  return base::sha256Hex(text);
}

ImageContent keptImage(const std::string& image_root, const std::string& key) {
  const std::string text = readCached(cachePlace(cacheName(image_root)), ".digest", 4096);
  std::istringstream words(text);
  ImageContent kept;
  words >> kept.key >> kept.digest >> kept.changed_at >> kept.files >> std::ws;
  std::getline(words, kept.newest);
  if (kept.key != key || !model::isImageDigest(kept.digest))
    kept = {.digest = "", .key = key, .changed = {}};
  return kept;
}

}  // namespace cloister::runtime

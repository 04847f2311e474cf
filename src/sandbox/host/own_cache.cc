// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/own_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"

namespace cloister::runtime {
namespace {

constexpr char kSystemCache[] = "/var/cache/cloister/";

// The first directory made by systemd for this service (systemd.exec(5), CacheDirectory=), or "".
std::string servicesCache() {
  const char* set = ::getenv("CACHE_DIRECTORY");
  if (set == nullptr || *set != '/') return {};
  const std::string all(set);
  return all.substr(0, all.find(':')) + "/";
}

// This account's cache directory, or "".
std::string ownCache() {
  if (std::string given = servicesCache(); !given.empty()) return given;
  if (::geteuid() == 0) return kSystemCache;
  const char* set = ::getenv("XDG_CACHE_HOME");
  const char* home = ::getenv("HOME");
  if (set != nullptr && *set == '/') return std::string(set) + "/cloister/";
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.cache/cloister/";
}

// nullopt if another account could have written the file, or if not a regular file.
std::optional<std::string> readOwn(const std::string& path, size_t max_bytes) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const bool ours = status.st_uid == ::geteuid() || status.st_uid == 0;
  if (!ours || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return std::nullopt;
  auto text = base::readFile("/proc/self/fd/" + std::to_string(file.get()), max_bytes);
  if (text) return *std::move(text);
  base::log(base::Level::kWarn, "a cache is not used",
            {{"file", path}, {"error", text.error().message}});
  return std::nullopt;
}

}  // namespace

void preferCache(const std::string& directory) {
  if (::getenv("CACHE_DIRECTORY") != nullptr) return;
  const std::string own = ownCache();
  const bool usable = !own.empty() && base::makeDirs(own.substr(0, own.size() - 1)) &&
                      ::access(own.c_str(), W_OK) == 0;
  if (!usable) ::setenv("CACHE_DIRECTORY", directory.c_str(), 1);
}

CachePlace cachePlace(const std::string& name) {
  const std::string own = ownCache();
  return {own.empty() ? own : own + name, kSystemCache + name};
}

std::string readCached(const CachePlace& place, const char* extension, size_t max_bytes) {
  for (const std::string& path : {place.own, place.system}) {
    if (path.empty()) continue;
    if (auto text = readOwn(path + extension, max_bytes)) return *std::move(text);
  }
  return {};
}

}  // namespace cloister::runtime

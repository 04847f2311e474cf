// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/own_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file.h"

namespace cloister::runtime {
namespace {

constexpr char kSystemCache[] = "/var/cache/cloister/";

// "" where there is none.
std::string ownCache() {
  if (::geteuid() == 0) return kSystemCache;
  const char* set = ::getenv("XDG_CACHE_HOME");
  const char* home = ::getenv("HOME");
  if (set != nullptr && *set == '/') return std::string(set) + "/cloister/";
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.cache/cloister/";
}

}  // namespace

CachePlace cachePlace(const std::string& name) {
  const std::string own = ownCache();
  return {own.empty() ? own : own + name, kSystemCache + name};
}

std::string readCached(const CachePlace& place, const char* extension, size_t max_bytes) {
  for (const std::string& path : {place.own, place.system}) {
    if (path.empty()) continue;
    const std::string file = path + extension;
    struct stat status{};
    if (::stat(file.c_str(), &status) != 0) continue;
    if (status.st_uid != ::geteuid() && status.st_uid != 0) continue;
    if (auto text = base::readFile(file, max_bytes)) return *std::move(text);
  }
  return {};
}

}  // namespace cloister::runtime

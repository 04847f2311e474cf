// SPDX-License-Identifier: Apache-2.0
// Small cache files that speed up the next start. The directory is $CACHE_DIRECTORY
// (systemd.exec(5)), otherwise /var/cache/cloister as root and the user's own cache as another
// user. Without a directory everything still works, only slower.
#pragma once

#include <string>

namespace cloister::runtime {

struct CachePlace {
  std::string own;     // a path without extension; "" if this account has no cache
  std::string system;  // the same in root's cache, shared by all accounts
};
// From now on in `directory`, where the other places do not exist or cannot be written (a read-only
// /var). Call before there are threads.
void preferCache(const std::string& directory);

CachePlace cachePlace(const std::string& name);

// The cached text, written by this account or root, since no other account can write there. "" if
// absent.
std::string readCached(const CachePlace& place, const char* extension, size_t max_bytes);

}  // namespace cloister::runtime

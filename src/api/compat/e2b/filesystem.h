// SPDX-License-Identifier: Apache-2.0
// E2B's filesystem.Filesystem: names in a sandbox, and their changes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/compat/e2b/sandbox.h"
#include "orchestrator/sessions/file_watch.h"

namespace cloister::api::compat::e2b {

// Watches whose changes the client asks for from time to time. A session's watches are bounded by
// session.max_watches, and this list of them by kMostWatchers.
class Watchers {
 public:
  struct Watcher {
    std::string session;
    std::string path;  // absolute
    bool with_entries = false;
    std::shared_ptr<orchestrator::FileWatch::Reader> reader;
    uint64_t seen = 0;
  };
  static constexpr size_t kMostWatchers = 64;  // of a session

  // kQuota above the bound; closed watches give room.
  Result<std::string> add(Watcher watcher);
  Result<std::shared_ptr<Watcher>> find(const std::string& session, const std::string& id);
  void remove(const std::string& id) { watchers_.erase(id); }

 private:
  std::map<std::string, std::shared_ptr<Watcher>> watchers_;
};

// `watchers` outlives the routes.
std::vector<Route> filesystemRoutes(RestParts& parts, Watchers& watchers);

}  // namespace cloister::api::compat::e2b

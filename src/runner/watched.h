// SPDX-License-Identifier: Apache-2.0
// WatchedTree: the directory of each watch descriptor of inotify(7), stored as the parent directory
// and the name, so that the move of one directory moves everything beneath. Fixed memory; only the
// used part costs memory. Place 0 is the root of the watched tree.
#pragma once

#include <climits>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/files.h"

namespace cloister::runner {

class WatchedTree {
 public:
  static constexpr int kNone = -1;

  // Sets the maximum number of directories, at most kMostWatched. Initially 0.
  void bound(uint32_t most) { most_ = most; }

  // kNone where there is no room, or the name is too long for any file system.
  int add(int wd, int parent, std::string_view name) {
    if (name.size() > NAME_MAX) return kNone;
    uint32_t at = 0;
    while (at < used_ && wds_[at] != 0)
      ++at;
    if (at >= most_) return kNone;
    if (at == used_) ++used_;
    wds_[at] = wd;
    missed_[at] = false;
    put(static_cast<int>(at), parent, name);
    return static_cast<int>(at);
  }

  [[nodiscard]] int find(int wd) const {
    for (uint32_t at = 0; wd > 0 && at < used_; ++at) {
      if (wds_[at] == wd) return static_cast<int>(at);
    }
    return kNone;
  }

  [[nodiscard]] int child(int parent, std::string_view name) const {
    for (uint32_t at = 1; at < used_; ++at) {
      if (wds_[at] != 0 && parents_[at] == parent && name == names_[at])
        return static_cast<int>(at);
    }
    return kNone;
  }

  [[nodiscard]] int wd(int at) const { return wds_[at]; }
  [[nodiscard]] bool isAt(int at, int parent, std::string_view name) const {
    return parents_[at] == parent && name == names_[at];
  }

  // Whether `at` is `above`, or beneath `above`.
  [[nodiscard]] bool beneath(int at, int above) const {
    while (at != above && at != 0)
      at = parents_[at];
    return at == above;
  }

  // Moves the directory. False if the new place would be beneath itself.
  bool place(int at, int parent, std::string_view name) {
    if (at == 0 || beneath(parent, at) || name.size() > NAME_MAX) return false;
    put(at, parent, name);
    return true;
  }

  // Drops the directory and all beneath; calls `each(wd)` for each.
  template <class Each>
  void drop(int at, Each each) {
    // First those beneath, found by their parents; `at` last.
    for (uint32_t other = 1; other < used_; ++other) {
      doomed_[other] =
          wds_[other] != 0 && static_cast<int>(other) != at && beneath(static_cast<int>(other), at);
    }
    for (uint32_t other = 1; other < used_; ++other) {
      if (doomed_[other]) forget(static_cast<int>(other), each);
    }
    forget(at, each);
  }

  // Between unsee() and sweep(): directories not marked by see() are dropped, as by drop().
  void unsee() { std::memset(seen_, 0, sizeof seen_); }
  void see(int at) { seen_[at] = true; }
  template <class Each>
  void sweep(Each each) {
    for (uint32_t at = 1; at < used_; ++at) {
      if (wds_[at] != 0 && !seen_[at]) drop(static_cast<int>(at), each);
    }
  }

  // Sets or clears the mark of a directory in which changes were missed, because its path led
  // elsewhere.
  void miss(int at, bool missed) { missed_[at] = missed; }
  // The first marked directory at or after place `from` that is `above` or beneath `above`, or
  // kNone.
  [[nodiscard]] int nextMissed(int from, int above) const {
    for (int at = from; at < static_cast<int>(used_); ++at) {
      if (missed_[at] && wds_[at] != 0 && beneath(at, above)) return at;
    }
    return kNone;
  }

  // Writes the path of `name` in the directory, or "" for the directory's own. 0 if `size` is too
  // small; otherwise the length plus 1.
  size_t path(int at, std::string_view name, char* out, size_t size) const {
    size_t length = name.size();
    for (int up = at; up != 0; up = parents_[up])
      length += std::strlen(names_[up]) + (length == 0 ? 0 : 1);
    if (length >= size) return 0;
    char* end = out + length;
    *end = '\0';
    prepend(end, name);
    for (int up = at; up != 0; up = parents_[up])
      prepend(end, names_[up]);
    return length + 1;
  }

  [[nodiscard]] uint32_t depth(int at) const {
    uint32_t depth = 0;
    for (; at != 0; at = parents_[at])
      ++depth;
    return depth;
  }

 private:
  void put(int at, int parent, std::string_view name) {
    parents_[at] = static_cast<uint16_t>(parent);
    std::memcpy(names_[at], name.data(), name.size());
    names_[at][name.size()] = '\0';
  }

  template <class Each>
  void forget(int at, Each each) {
    if (wds_[at] == 0) return;
    each(wds_[at]);
    wds_[at] = 0;
  }

  static void prepend(char*& end, std::string_view name) {
    if (name.empty()) return;
    if (*end != '\0') *--end = '/';
    end -= name.size();
    std::memcpy(end, name.data(), name.size());
  }

  uint32_t most_ = 0;  // all zero, since other values would be stored in the program's file
  uint32_t used_ = 0;  // no place from here on has ever been used
  int wds_[wire::files::kMostWatched];  // 0: free
  uint16_t parents_[wire::files::kMostWatched];
  bool seen_[wire::files::kMostWatched];
  bool missed_[wire::files::kMostWatched];
  bool doomed_[wire::files::kMostWatched];
  char names_[wire::files::kMostWatched][NAME_MAX + 1];
};

}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
// Walls: the part of an agent's rules that the kernel itself enforces, in a sandbox of the agent.
// Part of a permit; no rule here can extend the rights of a sandbox. policy/agent/walls.h makes the
// rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/writable.h"

namespace cloister::model {

struct Walls {
  // Paths that programs may change; the kernel refuses other changes (Landlock).
  enum class Writes : uint8_t {
    kAll,        // all writable directories of a sandbox
    kTemporary,  // /tmp and /dev/shm
    kNone,
  };

  // Absolute paths of the image, with * for any characters. Opening such a path is refused (by
  // mounts). DIRECTORY/* includes the directory.
  std::vector<std::string> hidden;
  // A path, including paths beneath, that may be opened although `within`, a member of `hidden`,
  // matches. Other matches of `within` stay hidden.
  struct Shown {
    std::string within;
    std::string path;  // without a *
    friend bool operator==(const Shown&, const Shown&) = default;
  };
  std::vector<Shown> shown;
  // Names of programs, with * for any characters, that cannot be run or read, under any name that
  // links to the program. Searched in kProgramPlaces, as the next.
  std::vector<std::string> without;
  // If set: the only available programs, including targets of their links.
  std::optional<std::vector<std::string>> only = std::nullopt;
  bool runs_own = true;  // files writable in the sandbox may be executed (else noexec)
  Writes writes = Writes::kAll;
  // An exception from `writes`: a path that programs may change.
  struct Writable {
    uint8_t operations = 0;  // kMayWrite and the like
    bool beneath = false;    // all beneath the directory `path`; otherwise the file `path`
    std::string path;        // plain, within a directory of kWritablePlaces; a directory may equal
                             // such a directory
    friend bool operator==(const Writable&, const Writable&) = default;
  };
  std::vector<Writable> writable;

  // How many of each, and how long.
  static constexpr size_t kMaxEntries = 1024;
  static constexpr size_t kMaxText = 512;
  static constexpr size_t kMaxBytes = size_t{64} << 10;  // of all together

  [[nodiscard]] bool none() const { return *this == Walls{}; }
  friend bool operator==(const Walls&, const Walls&) = default;
};

// Beneath the root; a link to another counts as the other.
inline constexpr std::string_view kProgramPlaces[] = {
    "usr/local/sbin", "usr/local/bin", "usr/sbin",  "usr/bin",
    "sbin",           "bin",           "usr/games", "usr/local/games",
};

inline constexpr std::string_view writesName(Walls::Writes writes) {
  constexpr std::string_view kNames[] = {"all", "temporary", "none"};
  return kNames[static_cast<size_t>(writes)];
}

}  // namespace cloister::model

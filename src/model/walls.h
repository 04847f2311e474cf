// SPDX-License-Identifier: Apache-2.0
// Walls: what of an agent's rules the kernel itself holds, in a sandbox of that agent. Part of a
// permit; nothing of it can make a sandbox wider. policy/agent/walls.h makes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/writable.h"

namespace cloister::model {

struct Walls {
  // Where programs may change files; beyond it the kernel refuses (Landlock).
  enum class Writes : uint8_t {
    kAll,        // all that is writable in a sandbox
    kTemporary,  // /tmp and /dev/shm
    kNone,
  };

  // Absolute paths of the image, in which * stands for any characters: whoever opens one is refused
  // (mounts). DIRECTORY/* is the directory.
  std::vector<std::string> hidden;
  // A path that may be opened all the same, with what is beneath it, though `within`, which is one
  // of `hidden`, names it. What else of those names it hides it nevertheless.
  struct Shown {
    std::string within;
    std::string path;  // without a *
    friend bool operator==(const Shown&, const Shown&) = default;
  };
  std::vector<Shown> shown;
  // Programs that cannot be run or read, by name, in which * stands for any characters; under every
  // name that leads to one of them. They are looked for in kProgramPlaces, as the next.
  std::vector<std::string> without;
  // Where it is set: the only programs that are there, and what they are links to.
  std::optional<std::vector<std::string>> only = std::nullopt;
  bool runs_own = true;  // files that the sandbox can write may be executed (else noexec)
  Writes writes = Writes::kAll;
  // Where programs may change files although `writes` does not let them.
  struct Writable {
    uint8_t operations = 0;  // kMayWrite and the like
    bool beneath = false;    // all beneath the directory `path`; otherwise the file `path`
    std::string path;        // plain, in one of kWritablePlaces; a directory may be one of them
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

// Beneath the root; one that is a link to another is that other.
inline constexpr std::string_view kProgramPlaces[] = {
    "usr/local/sbin", "usr/local/bin", "usr/sbin",  "usr/bin",
    "sbin",           "bin",           "usr/games", "usr/local/games",
};

inline constexpr std::string_view writesName(Walls::Writes writes) {
  constexpr std::string_view kNames[] = {"all", "temporary", "none"};
  return kNames[static_cast<size_t>(writes)];
}

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
// Unfinished: the changes of a file server's request that must be undone, in memory shared with the
// runner. The file server may be killed at any moment, like every program of a sandbox. Then the
// runner, which outlives the file server, undoes the changes. Each change is noted before its
// start.
//
// The shared memory is written by a program of the sandbox, so the runner may read arbitrary bytes
// there. The runner's undoing is bounded, stays beneath the workspace, and does nothing that a
// program could not do.
#pragma once

#include <sys/types.h>

#include <climits>
#include <cstdint>
#include <string_view>

#include "wire/files.h"

namespace cloister::runner {

struct Unfinished {
  // The directories above something, itself, and an upload.
  static constexpr uint32_t kMost = wire::files::kMaxDepth + 2;

  struct Step {
    uint32_t length;  // of the part of `path` that the step concerns
    uint32_t mode;    // to restore; kRemove: a file to remove
    uint64_t inode;   // expected inode; 0: any
  };
  static constexpr uint32_t kRemove = UINT32_MAX;

  char base[PATH_MAX];  // a directory, as a request's path (wire/files.h)
  char path[PATH_MAX];  // beneath base; each step concerns the path or a directory above
  uint32_t count;       // of `steps`: incremented after a step is complete
  Step steps[kMost];
};

// Sets the memory for this process's notes.
void noteIn(Unfinished* unfinished);

// A noted step, for the object's lifetime; false without room, and then the step must not be made.
// Steps end in reverse order.
class Noted {
 public:
  Noted() = default;
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;
  ~Noted() { end(); }

  // `base` only matters for the first step.
  [[nodiscard]] bool mode(std::string_view path, mode_t mode, ino_t inode);
  [[nodiscard]] bool removal(std::string_view name);
  void end();

 private:
  bool note(std::string_view path, uint32_t mode, uint64_t inode);
  bool noted_ = false;
};

// Sets the directory of all steps of this request. False if too long.
[[nodiscard]] bool noteBase(std::string_view base);

// Called by the runner after the end of the noting process.
void undo(int workspace, Unfinished& unfinished);

}  // namespace cloister::runner

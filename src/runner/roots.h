// SPDX-License-Identifier: Apache-2.0
// The directories of which the file server serves files (model::kFileRoots). Programs cannot
// replace these directories: each is a mount in a root that programs cannot change.
#pragma once

#include "base/fd.h"

namespace cloister::runner {

// The directory of an absolute `path`, opened, or else `workspace`. Sets `path` to the rest, ""
// for the directory itself. The caller checks the rest.
class RootOf {
 public:
  RootOf(int workspace, const char*& path);
  // -1, with errno, if the path is absolute and in no directory of kFileRoots.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  base::Fd opened_;
  int fd_;
};

}  // namespace cloister::runner

// SPDX-License-Identifier: Apache-2.0
// Reading files whose modes do not let their owner read.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <string_view>
#include <utility>

#include <stdio.h>

#include "base/fd.h"
#include "runner/beneath.h"
#include "runner/unfinished.h"

namespace cloister::runner {

// Makes a file or directory readable that its owner may not read, for the lifetime of the object:
// the owner may change its mode. If the process is killed, the runner restores the mode.
class Readable {
 public:
  // `path`: `name` in `directory`, as in the archive.
  Readable(int directory, const char* name, std::string_view path, const struct stat& st) {
    const mode_t needed = S_ISDIR(st.st_mode) ? S_IRUSR | S_IXUSR : S_IRUSR;
    if ((st.st_mode & needed) == needed || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))) return;
    fd_.reset(openBeneath(directory, name, O_PATH));
    snprintf(path_, sizeof path_, "/proc/self/fd/%d", fd_.get());
    mode_ = st.st_mode & 07777;
    if (!fd_ || !noted_.mode(path, mode_, st.st_ino)) return;
    changed_ = chmod(path_, mode_ | needed) == 0;
  }
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;
  ~Readable() { end(); }
  [[nodiscard]] bool changed() const { return changed_; }
  void end() {
    if (std::exchange(changed_, false)) chmod(path_, mode_);
    noted_.end();
  }

 private:
  Fd fd_;
  Noted noted_;
  char path_[32];
  mode_t mode_ = 0;
  bool changed_ = false;
};

}  // namespace cloister::runner

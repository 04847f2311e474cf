// SPDX-License-Identifier: Apache-2.0
// The workspace as the runner touches it: files written for the node, noted, and collected. The
// program may have put anything there: every path is resolved beneath the directory without
// following a link, and only regular files are read.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string_view>

#include <time.h>

#include "base/fd.h"
#include "runner/file_table.h"
#include "runner/link.h"

namespace cloister::runner {

// The runner's umask; modes within need no chmod(2).
inline constexpr mode_t kUmask = 022;

// Writes a file that arrives in pieces.
class FileWriter {
 public:
  // Makes an empty file with exactly this mode, and the directories above. Returns errno.
  int begin(int workspace, std::string_view path, uint32_t mode, uint64_t size);
  // Takes the next bytes: false if more come than announced. The first errno of a write is kept.
  bool write(std::string_view bytes, int& error);
  // True while announced bytes are still to come, also after an error.
  [[nodiscard]] bool active() const { return left_ != 0; }

 private:
  void finish();

  Fd file_;
  uint64_t left_ = 0;
};

struct CollectRules {
  static constexpr uint32_t kMaxGlobs = 256;
  uint32_t max_files = 0;
  uint64_t max_bytes = 0;
  uint32_t glob_count = 0;
  std::string_view globs[kMaxGlobs];
};

// Remembers the current regular files beneath `workspace`.
void markFiles(int workspace, FileTable& table);

// The size of the largest file written since `since`.
uint64_t largestFile(int workspace, const timespec& since);

// Sends the regular files that match and are new or changed since `table`: kFileBegin, kFileContent
// … and kCollected at the end. Dot directories, __pycache__ and node_modules are left out, as are
// directories nested deeper than 32 or beyond the first 16,384 files and directories.
void collectFiles(int workspace, FileTable& table, const CollectRules& rules, uint32_t channel,
                  Link& link);

}  // namespace cloister::runner

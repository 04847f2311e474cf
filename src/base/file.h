// SPDX-License-Identifier: Apache-2.0
// Whole small files and directories of ours (configuration, keys, state), never of a sandbox.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::base {

// Reads at most `max_bytes`; a larger file is kTooLarge.
Result<std::string> readFile(const std::string& path, size_t max_bytes = size_t{16} << 20);
// The same from where `fd` is; `path` is for errors.
Result<std::string> readOpenFile(int fd, const std::string& path, size_t max_bytes);

// Writes atomically: a temporary file beside `path`, fsync, rename. `mode` is exact (no umask).
Result<> writeFileAtomic(const std::string& path, std::string_view data, mode_t mode);

// From now on this process syncs no file: all its data is discarded with the service. Call before
// there are threads.
void skipSyncs();
[[nodiscard]] bool syncsSkipped();

// fsync(2) and fdatasync(2), unless skipped.
int syncFile(int fd);
int syncData(int fd);

// mkdir -p; a newly made last component gets `mode`.
Result<> makeDirs(const std::string& path, mode_t mode = 0755);

// The names in a directory, sorted, without . and ..
Result<std::vector<std::string>> listDir(const std::string& path);

// Data files of the installation: PREFIX/share/cloister, where this executable is in
// PREFIX/lib/cloister (installed) or in PREFIX/<any name> (a build); or $CLOISTER_SHARE when set
// (packagers, tests).
std::string shareDir();

// The directory of the running executable.
std::string programDir();

// $XDG_STATE_HOME/cloister, ~/.local/state/cloister, or /var/lib/cloister for root.
std::string defaultStateDir();

}  // namespace cloister::base

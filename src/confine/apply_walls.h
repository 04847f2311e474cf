// SPDX-License-Identifier: Apache-2.0
// Putting up an agent's walls (model/walls.h) by mounts: over what is hidden, an empty file or
// directory that nobody may open; over a directory of programs, one in which there are only those
// that may be. Runs in a sandbox before it is confined, or in what becomes its guest, never in the
// node. Links of the image lead nowhere but into it (openat2(2) RESOLVE_IN_ROOT).
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "model/walls.h"

namespace cloister::runtime {

// Applies the confinement rules to the file system at `root`, whose mounts are this process's own.
// Requires the spawner's root as working directory: the covering files are taken from there.
// Missing paths are no error. kUnsupported: a pattern would need too many files to be examined.
Result<> applyWalls(const model::Walls& walls, const std::string& root);

// The rules travel to the spawner as a sealed file.
Result<Fd> sealWalls(const std::string& encoded);
Result<model::Walls> readWalls(int fd);

}  // namespace cloister::runtime

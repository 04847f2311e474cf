// SPDX-License-Identifier: Apache-2.0
// Applies an agent's confinement rules (model/walls.h) by mounts. An empty file or directory that
// nobody may open covers each hidden path. A directory that has only the permitted programs covers
// a directory of programs. Runs in a sandbox before its confinement, or in the process that becomes
// the sandbox's guest, never in the node. Links of the image are resolved inside the image
// (openat2(2) RESOLVE_IN_ROOT).
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

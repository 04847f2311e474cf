// SPDX-License-Identifier: Apache-2.0
// Terminals (pts(4)) in the sandbox's own devpts.
#pragma once

#include <cstdint>

#include "base/fd.h"

namespace cloister::runner {

// Opens a new terminal: `ours`, non-blocking, and the program's side. Returns errno.
int openTerminal(Fd& ours, Fd& theirs, uint16_t cols, uint16_t rows);

// Opens the program's side of `ours`, which is unlocked, by its name in /dev/pts, for a kernel
// without TIOCGPTPEER (gVisor's). ENXIO if another file has the name. Returns errno.
int openPeerByName(const Fd& ours, Fd& theirs);

}  // namespace cloister::runner

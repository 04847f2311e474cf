// SPDX-License-Identifier: Apache-2.0
// The spawner's side of a zygote (zygote.h).
#pragma once

#include "confine/confine.h"
#include "confine/spawn_loop.h"

namespace cloister::runtime {

// Becomes an interpreter in the sandboxes' root, with its own /proc and /workspace, as root of a
// user namespace with the sandboxes' users and no host user. On failure, reports the error on the
// control socket and exits.
[[noreturn]] void becomeZygote(const Confinement& confinement, Birth& birth);

}  // namespace cloister::runtime

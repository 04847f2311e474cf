// SPDX-License-Identifier: Apache-2.0
// The spawner's side of a zygote (zygote.h).
#pragma once

#include "confine/confine.h"
#include "confine/spawn_loop.h"

namespace cloister::runtime {

// Becomes an interpreter in the sandboxes' root, with a /proc and a /workspace of its own, as the
// root of a user namespace that has the sandboxes' users and nothing of the host. What fails on the
// way is told on its control socket, and the process exits.
[[noreturn]] void becomeZygote(const Confinement& confinement, Birth& birth);

}  // namespace cloister::runtime

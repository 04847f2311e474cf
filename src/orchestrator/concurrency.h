// SPDX-License-Identifier: Apache-2.0
// What coroutines of the io thread need beside awaiting.h, for who stands above: a condition to
// wait for, and a coroutine that nobody waits for.
#pragma once

#include "runtime/signal.h"
#include "runtime/spawn.h"

namespace cloister::orchestrator {

using runtime::Signal;
using runtime::spawn;

}  // namespace cloister::orchestrator

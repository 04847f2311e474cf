// SPDX-License-Identifier: Apache-2.0
// How handlers wait for another thread; see orchestrator/awaiting.h.
#pragma once

#include "orchestrator/awaiting.h"

namespace cloister::api {

using orchestrator::callback;
using orchestrator::committed;
using orchestrator::inBackground;

}  // namespace cloister::api

// SPDX-License-Identifier: Apache-2.0
// The services behind E2B's interface, and what the service remembers about sandboxes for its
// clients. In memory: no sandbox outlives the service. On the io thread.
#pragma once

#include "api/compat/compat.h"
#include "api/compat/e2b/auto_pause.h"
#include "api/compat/e2b/filesystem.h"
#include "api/compat/e2b/interpreter.h"
#include "api/compat/e2b/processes.h"

namespace cloister::api::compat::e2b {

struct Desk {
  explicit Desk(RestParts& with) : parts(with) {}

  RestParts& parts;
  Processes processes;
  Watchers watchers;
  Contexts contexts;
  AutoPause auto_pause;
};

}  // namespace cloister::api::compat::e2b

// SPDX-License-Identifier: Apache-2.0
// A sandbox within a session's. The guest's pid 1 makes the sandbox (wire/guest.h) for one run, and
// Run conducts the run like any other. The inner runner's stream passes through the standard
// streams of a program of the session's runner. The sandbox and this program end together.
#pragma once

#include <memory>
#include <string>

#include "model/limits.h"
#include "model/walls.h"
#include "sandbox/box/exec_apart.h"
#include "sandbox/box/live.h"
#include "sandbox/box/switchboard.h"

namespace cloister::runtime {

struct WithinTraits {
  model::Limits limits;  // of the whole sandbox
  bool runs_own = true;  // as in model::Walls, as the next
  model::Walls::Writes writes = model::Walls::Writes::kAll;
  std::string writable = {};  // writablePayload(); "" for none
  bool shares = false;        // the session's workspace is its own
};

// Makes a sandbox within the sandbox of `live`, whose guest supports nesting (Guest::nesting).
std::shared_ptr<Apart> withinOf(std::shared_ptr<Live> live,
                                const std::shared_ptr<Switchboard>& board,
                                const WithinTraits& traits);

}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
// A sandbox within a session's: made in the guest by its pid 1 (wire/guest.h), for one run, which
// is conducted like any other (Run). The runner's stream goes by way of a program of the session's
// runner, whose standard streams it is; it ends with that, and that with it.
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

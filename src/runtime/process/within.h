// SPDX-License-Identifier: Apache-2.0
// A sandbox within a session's: made in the guest by its pid 1 (wire/guest.h), for one run, which
// is conducted like any other (Run). The runner's stream goes by way of a program of the session's
// runner, whose standard streams it is; it ends with that, and that with it.
#pragma once

#include <memory>
#include <string>

#include "model/exec_spec.h"
#include "model/limits.h"
#include "model/walls.h"
#include "runtime/process/live.h"
#include "runtime/process/switchboard.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

struct WithinTraits {
  model::Limits limits;  // of all of it
  bool runs_own = true;  // model::Walls, as the next
  model::Walls::Writes writes = model::Walls::Writes::kAll;
  std::string writable = {};    // writablePayload(); "" for none
  std::shared_ptr<void> place;  // of the session's programs; let go with the Exec
};

// One program in a sandbox of its own within `live`, whose guest can have such (Guest::nesting).
// The sandbox is made by run(), and gone when that returns. It takes no input but ExecSpec::input,
// no signal and no terminal.
std::unique_ptr<Exec> makeExecWithin(std::shared_ptr<Live> live,
                                     const std::shared_ptr<Switchboard>& board,
                                     model::ExecSpec spec, WithinTraits traits);

}  // namespace cloister::runtime

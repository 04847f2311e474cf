// SPDX-License-Identifier: Apache-2.0
// A session's workspace is held for a program that a person approved. The hold lasts from the start
// of the program that reads the workspace's state (wire::files::kHold) to the end of that program.
// Meanwhile earlier programs are stopped, and execs opened before the hold do not start. An exec
// that is opened during the hold belongs to the approved program; the callers that open execs
// ensure this. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <boost/asio/any_io_executor.hpp>

#include "async/signal.h"
#include "runtime/runtime.h"
#include "sandbox/box/live.h"

namespace cloister::runtime {

// The gate of a session, closed while the session's workspace is held.
struct HoldGate {
  explicit HoldGate(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
  bool closed = false;
  uint64_t count = 0;  // number of times the gate was closed
  // Programs whose start is sent but not yet confirmed, and removals of code being sent. Hold waits
  // until none is left, so that no program is frozen before its start.
  size_t starting = 0;
  async::Signal changed;
};

// `exec` holds the workspace while `exec` runs. `freezes`: stop running programs by freezing
// cgroups.
std::unique_ptr<Exec> makeHold(std::unique_ptr<Exec> exec, std::shared_ptr<Live> live,
                               std::shared_ptr<HoldGate> gate, bool freezes);

}  // namespace cloister::runtime

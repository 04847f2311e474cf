// SPDX-License-Identifier: Apache-2.0
// A session's workspace is held for a program that a person approved: from the beginning of the
// program that reads its state (wire::files::kHold) to that one's end nothing goes on that ran
// before, and nothing starts that was opened before. What is opened meanwhile is the approved
// program's: who opens programs sees to that. One thread.
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

// Of one session: closed while its workspace is held.
struct HoldGate {
  explicit HoldGate(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
  bool closed = false;
  uint64_t count = 0;  // how often it was closed
  // Programs that the runner has been told to start and has not, and removals of code that it is
  // being told: it waits until each executes, so that none of them may be frozen before.
  size_t starting = 0;
  async::Signal changed;
};

// `exec` holds it while it runs. `freezes`: what runs is stopped from outside.
std::unique_ptr<Exec> makeHold(std::unique_ptr<Exec> exec, std::shared_ptr<Live> live,
                               std::shared_ptr<HoldGate> gate, bool freezes);

}  // namespace cloister::runtime

// SPDX-License-Identifier: Apache-2.0
// What QEMU is told on its monitor (QMP, docs/interop/qmp-spec in its sources) for templates: to
// leave a machine's state in a file, and to be such a machine. The memory is a file of its own,
// which neither reads nor writes ("x-ignore-shared").
//
// A VMM is hostile: what it answers is bounded in size, number and time. One that resumes is not
// listened to at all: its orders are in the socket before it starts, and what it makes of them
// shows in whether its guest wakes.
#pragma once

#include <chrono>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"

namespace cloister::runtime::microvm {

// Orders for a QEMU started with "-incoming defer". `state`: number of its descriptor there.
std::string ordersToResume(int state);

// Pauses the machine behind `socket` and saves its state in the file `state`, from the file's
// offset. Fails if QEMU reports an error or sends an unexpected message, or after `patience`.
Task<Result<>> saveState(boost::asio::any_io_executor executor, Fd socket, int state,
                         Millis patience = std::chrono::seconds(30));

}  // namespace cloister::runtime::microvm

// SPDX-License-Identifier: Apache-2.0
// The orders for templates on QEMU's monitor (QMP, docs/interop/qmp-spec in its sources): leave a
// machine's state in a file, and start as such a machine. The memory is a file of its own, which
// neither order reads or writes ("x-ignore-shared").
//
// A VMM is hostile: its answers are bounded in size, number and time. The answers of a VMM that
// resumes are not read at all. Its orders are in the socket before the VMM's start, and the guest's
// wake-up shows their success.
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

// SPDX-License-Identifier: Apache-2.0
// The order to a VMM's driver for templates (wire/driver.h): keep the machine. The answer is
// hostile, because an attacker who breaks out of the machine controls the answer. The answer is one
// frame, bounded in size and time.
#pragma once

#include <chrono>

#include <boost/asio/any_io_executor.hpp>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"

namespace cloister::runtime::microvm {

// Orders the driver behind `socket` to pause its machine and to save memory and state in its files.
// Fails if the driver reports an error or another message, or after `patience`.
Task<Result<>> orderToKeep(boost::asio::any_io_executor executor, Fd socket,
                           Millis patience = std::chrono::seconds(30));

}  // namespace cloister::runtime::microvm

// SPDX-License-Identifier: Apache-2.0
// What the driver of a VMM is told for templates (wire/driver.h): to have the machine kept. What it
// answers is hostile, as whoever breaks out of the machine speaks for it: one frame, bounded in
// size and time.
#pragma once

#include <chrono>

#include <boost/asio/any_io_executor.hpp>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"

namespace cloister::runtime::microvm {

// Has the machine of the driver behind `socket` stand still and leave memory and state in the files
// that it has for them. An error where it says that it could not, or says something else, or is not
// done within `patience`.
Task<Result<>> orderToKeep(boost::asio::any_io_executor executor, Fd socket,
                           Millis patience = std::chrono::seconds(30));

}  // namespace cloister::runtime::microvm

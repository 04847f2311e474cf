// SPDX-License-Identifier: Apache-2.0
// The socket for clients: bound by the supervisor, so that connections during a restart of the
// control plane wait instead of being refused.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace cloister::supervisor {

// Binds and listens on "host:port" (a numeric address or localhost; [v6]:port). An address in use
// is tried again until `patience` is over: a server that was killed may still be ending.
Result<Fd> listenOn(std::string_view address, Millis patience);

// Whether listenOn() understands the text. Binds nothing.
Result<> checkAddress(std::string_view address);

// "host:port" of a listening TCP socket; "" for a socket of another family.
std::string addressOf(int fd);

// The address for clients on this machine: a wildcard becomes its loopback.
std::string reachable(std::string_view address);

bool isLoopback(std::string_view address);

}  // namespace cloister::supervisor

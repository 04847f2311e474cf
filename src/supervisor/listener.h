// SPDX-License-Identifier: Apache-2.0
// The socket that clients reach: bound by the supervisor, so that connections made while the
// control plane restarts wait instead of being refused.
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

// "host:port" of a listening TCP socket; "" for one of another family.
std::string addressOf(int fd);

// The address that a client on this machine uses: a wildcard becomes its loopback.
std::string reachable(std::string_view address);

bool isLoopback(std::string_view address);

}  // namespace cloister::supervisor

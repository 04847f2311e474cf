// SPDX-License-Identifier: Apache-2.0
// A TLS connection as a plain descriptor, for a program that moves bytes by poll(2).
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "net/client_stream.h"

namespace cloister::net {

// A socket to a thread. The thread passes bytes on in both directions until both sides have ended
// or the connection breaks.
Result<base::Fd> passOn(ClientStream stream);

}  // namespace cloister::net

// SPDX-License-Identifier: Apache-2.0
// HTTP/2 within an inspected connection, on both sides: reads and writes for H2Streams.
#pragma once

#include "egress/relay/connection.h"

namespace cloister::egress {

// Serves until one side ends. Both sides of the connection speak TLS.
Task<void> relayHttp2(Connection& connection);

}  // namespace cloister::egress

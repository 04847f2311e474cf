// SPDX-License-Identifier: Apache-2.0
// The relays: from a connection that a sandbox opened to a connection to the name outside. The rule
// that allows the name and port decides the protocol:
// - tls: the ClientHello must name the same server; the rest passes as it is, or is inspected
//   (inspect.h);
// - http: each request is judged by method and path (http_relay.h);
// - tcp: all bytes pass as they are.
//
// Called by cloister-egress for each accepted connection. The verdict comes before a byte leaves,
// and each later plan judges the open connection again.
#pragma once

#include <memory>

#include "egress/dial/dial.h"
#include "egress/relay/connection.h"
#include "egress/relay/guard.h"

namespace cloister::egress {

// Returns when the connection has ended. A refused connection ends with RST, a refused ClientHello
// with a TLS alert, and a refused request with an answer. The caller keeps `dialler`.
Task<void> relay(Inside inside, std::shared_ptr<Guard> guard, Dialler& dialler,
                 const RelayLimits& limits);

// The same for a destination that is judged already. `arrived`: bytes that the sandbox sent, not
// yet counted. Dials unless outside() is open.
Task<void> speak(Connection& connection, Ruling ruling, std::string arrived);

}  // namespace cloister::egress

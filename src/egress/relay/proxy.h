// SPDX-License-Identifier: Apache-2.0
// The explicit proxy of a sandbox, proxy.cloister.internal:3128: CONNECT, and requests with an
// absolute target (RFC 9110 §7.6, RFC 9112 §3.2.2), for programs that insist on a proxy. The rules
// are those of a direct connection: behind CONNECT the rule of the destination decides the
// protocol.
#pragma once

#include <memory>

#include "egress/plan/own_names.h"  // IWYU pragma: export
#include "egress/relay/relay.h"

namespace cloister::egress {

// As relay(), for a connection to the proxy itself. `inside` has the proxy's name and port.
Task<void> proxy(Inside inside, std::shared_ptr<Guard> guard, Dialler& dialler,
                 const RelayLimits& limits);

}  // namespace cloister::egress

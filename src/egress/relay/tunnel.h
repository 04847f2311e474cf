// SPDX-License-Identifier: Apache-2.0
// The copying tunnel between the two sockets of a connection: bytes as they are, in both
// directions.
#pragma once

#include "egress/relay/connection.h"

namespace cloister::egress {

// Copies until both directions have ended. The end of one direction is passed on (FIN), and the
// other one continues. An error of a socket resets both. A direction has a buffer (128 KiB) only
// while it moves bytes, so an idle tunnel costs little; a receiver that takes nothing stops the
// sender.
Task<void> tunnel(Connection& connection);

}  // namespace cloister::egress

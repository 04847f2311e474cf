// SPDX-License-Identifier: Apache-2.0
// The door of a sandbox, on the node's side (ADR 0100). Pool::openDoor() takes a claimed sandbox
// and a DoorOrder (doorOrder()), and gives DoorSockets. The node attaches the sockets to
// cloister-egress and keeps duplicates until the sandbox is gone: a held socket keeps the network
// namespace.
#pragma once

#include "confine/door.h"        // IWYU pragma: export
#include "confine/door_link.h"   // IWYU pragma: export
#include "confine/door_order.h"  // IWYU pragma: export

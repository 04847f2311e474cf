// SPDX-License-Identifier: Apache-2.0
// Opens the door of a sandbox: the sockets through which cloister-egress hears the sandbox's
// programs (ADR 0100). Runs in a process of the spawner that has entered the sandbox's network
// namespace, before any hostile program runs there.
//
// Afterwards the namespace delivers packets for every address locally. With tproxy, one chain of
// nf_tables (door_rules.h) hands connections to a single listener, refuses the rest at once, and
// logs what it refuses. Without tproxy there is a listener on each port of the plan; the kernel
// refuses the rest by itself, unlogged. Programs inside cannot undo this: the namespace belongs to
// a user namespace above theirs, where they have no capability.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "confine/door_order.h"

namespace cloister::runtime {

// The sockets, none of which blocks. Each keeps the network namespace alive.
struct DoorSockets {
  // Whether one listener hears every address, and the log tells the refused attempts.
  bool transparent = false;
  // TCP. getsockname(2) of an accepted connection is the destination that the program asked for.
  // A connection to kDnsPort, of any address, is DNS over TCP.
  std::vector<Fd> listeners;
  // UDP port 53 of every IPv4 address. recvmsg(2) gives IP_PKTINFO; the answer has to come from
  // that ipi_addr, given as ipi_spec_dst of IP_PKTINFO to sendmsg(2).
  Fd dns;
  Fd log;   // of linux::openLog(), or none
  Fd diag;  // of linux::openSockDiag(), or none; the node keeps it, to find a connection's program
  std::vector<std::string> weakened;
};

// The number of listeners is at most this; further ports of the plan are refused, and `weakened`
// says so.
inline constexpr size_t kMaxPortListeners = 16;

// For this process's network namespace, whose `lo` is up. Needs CAP_NET_ADMIN and
// CAP_NET_BIND_SERVICE there. kConflict: the namespace has a door.
Result<DoorSockets> openDoor(const DoorOrder& order);
// The same without nf_tables.
Result<DoorSockets> openDoorByPorts(const DoorOrder& order, const std::string& why);

}  // namespace cloister::runtime

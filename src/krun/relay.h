// SPDX-License-Identifier: Apache-2.0
// Relay: what a program beside a VMM does for as long as the machine lives. It passes the bytes of
// the machine's one connection on to the node and back, unread, and what the machine writes on its
// console to this process's stderr. One thread; holds at most one piece of each way.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace cloister::krun {

struct RelayEnds {
  int node = -1;  // the runner's socket; a stream
  Fd listener;    // the machine connects here once; then closed
  Fd console;     // read end of a pipe; or none
  Fd alive;       // read end of a pipe whose other end only the VMM has open
};

enum class RelayEnd {
  kMachine,  // the VMM has ended, and all its data was forwarded
  kNode,     // the node has hung up
  kStuck,    // the VMM does not end after its connection, or the node does not read the rest
};

// Forwards until a side ends. The node's end in either direction counts: the node never closes only
// one direction. The end of the machine's connection is passed on to the node, and the VMM has a
// few seconds to end.
Result<RelayEnd> relay(RelayEnds& ends);

}  // namespace cloister::krun

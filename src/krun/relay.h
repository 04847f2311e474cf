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
  Fd listener;    // where the machine connects, once; closed when it has
  Fd console;     // read end of a pipe; or none
  Fd alive;       // read end of a pipe whose other one the VMM alone holds, until it ends
};

enum class RelayEnd {
  kMachine,  // the VMM has ended, and all that it left has been passed on
  kNode,     // the node has hung up
  kStuck,    // the VMM does not end after its connection, or the node does not take what it left
};

// Until one side ends. The node's is an end from either way: it never closes only one. When the
// machine's connection ends the node is told, and the VMM has a few seconds to end, too.
Result<RelayEnd> relay(RelayEnds& ends);

}  // namespace cloister::krun

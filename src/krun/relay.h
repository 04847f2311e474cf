// SPDX-License-Identifier: Apache-2.0
// Relay: the task of a program beside a VMM during the machine's life. The relay passes the bytes
// of the machine's one connection to the node and back, without interpreting the bytes. The relay
// copies the machine's console to this process's stderr. One thread; holds at most one piece of
// each direction.
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

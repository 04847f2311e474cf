// SPDX-License-Identifier: Apache-2.0
#include "vmm/relay.h"

#include <poll.h>

#include "vmm/pipe.h"

namespace cloister::vmm {
namespace {

constexpr int kOver = POLLHUP | POLLERR;

// Zero pages until they are used.
Pipe the_way_in;
Pipe the_way_out;

// One side: `from` reads it, `to` writes it. Not looked at where there is nothing to do, as poll(2)
// tells of a hang-up again and again.
pollfd sideOf(int socket, const Pipe& from, const Pipe& to) {
  const int events = (from.hasRoom() ? POLLIN : 0) | (to.hasBytes() ? POLLOUT : 0);
  return {events != 0 ? socket : -1, static_cast<short>(events), 0};
}

// False when it takes nothing any more.
bool serve(const pollfd& side, Pipe& from, Pipe& to) {
  if (from.hasRoom() && (side.revents & (POLLIN | kOver)) != 0) from.readFrom(side.fd);
  return !to.hasBytes() || (side.revents & (POLLOUT | kOver)) == 0 || to.writeTo(side.fd);
}

}  // namespace

void relay(int node, int guest) {
  Pipe& in = the_way_in;
  Pipe& out = the_way_out;
  while (!in.hasEnded() && !out.isDone()) {
    // Of the node's hang-up even while nothing is read from it.
    pollfd sides[] = {sideOf(node, in, out), sideOf(guest, out, in), {node, POLLRDHUP, 0}};
    if (poll(sides, 3, -1) <= 0) continue;
    if (sides[2].revents != 0 || !serve(sides[0], in, out)) return;
    // Where the guest takes nothing any more, what it has said still counts.
    if (!serve(sides[1], out, in)) in.clear();
  }
}

}  // namespace cloister::vmm

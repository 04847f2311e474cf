// SPDX-License-Identifier: Apache-2.0
#include "vmm/relay.h"

#include <poll.h>

#include "vmm/pipe.h"

namespace cloister::vmm {
namespace {

constexpr int kOver = POLLHUP | POLLERR;

// Zero pages until use.
Pipe the_way_in;
Pipe the_way_out;

// A side: `from` reads the socket, `to` writes to the socket. Without work, poll(2) must not look,
// since a closed peer would be reported again and again.
pollfd sideOf(int socket, const Pipe& from, const Pipe& to) {
  const int events = (from.hasRoom() ? POLLIN : 0) | (to.hasBytes() ? POLLOUT : 0);
  return {events != 0 ? socket : -1, static_cast<short>(events), 0};
}

// False when the socket accepts no more data.
bool serve(const pollfd& side, Pipe& from, Pipe& to) {
  if (from.hasRoom() && (side.revents & (POLLIN | kOver)) != 0) from.readFrom(side.fd);
  return !to.hasBytes() || (side.revents & (POLLOUT | kOver)) == 0 || to.writeTo(side.fd);
}

}  // namespace

void relay(int node, int guest) {
  Pipe& in = the_way_in;
  Pipe& out = the_way_out;
  while (!in.hasEnded() && !out.isDone()) {
    // Detects that the node has closed its end, even while reading is paused.
    pollfd sides[] = {sideOf(node, in, out), sideOf(guest, out, in), {node, POLLRDHUP, 0}};
    if (poll(sides, 3, -1) <= 0) continue;
    if (sides[2].revents != 0 || !serve(sides[0], in, out)) return;
    // A guest that no longer reads may still have sent data.
    if (!serve(sides[1], out, in)) in.clear();
  }
}

}  // namespace cloister::vmm

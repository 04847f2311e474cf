// SPDX-License-Identifier: Apache-2.0
// The network link of a machine (docs/adr/0102), from the machine's side: one interface, on which
// everything goes to a single router. The first sandbox has the machine's network; sandboxes within
// have none.
#pragma once

namespace cloister::guest {

// Whether the parameters say that this machine has a network (wire/guest.h).
bool hasNetwork();

// Sets up the interface, if there is to be one; ends the machine where its driver is missing. Needs
// /proc, and a writable /run.
void prepareNetwork();

// Shows a resolv.conf in the root at kRoot, whatever the image has in its place. Call in the
// sandbox's own mount namespace.
void showNameServer();

}  // namespace cloister::guest

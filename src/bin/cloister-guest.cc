// SPDX-License-Identifier: Apache-2.0
// cloister-guest: pid 1 of a virtual machine that the node makes. Never started by hand.
#include "guest/guest.h"

int main() {
  cloister::guest::run();
}

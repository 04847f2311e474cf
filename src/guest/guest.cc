// SPDX-License-Identifier: Apache-2.0
#include "guest/guest.h"

#include <signal.h>
#include <unistd.h>

#include <stdlib.h>

#include "guest/machine.h"
#include "guest/relay.h"
#include "guest/sandbox.h"
#include "wire/guest.h"

namespace cloister::guest {
namespace {
Sandbox the_sandbox;
}

void run() {
  // Only some versions of a VMM with an init of its own leave it the first number.
  if (getpid() != 1 && getenv(wire::guest::kShown) == nullptr) _exit(64);
  signal(SIGCHLD, SIG_IGN);  // nobody waits for what ends
  prepareMachine();
  Fd port = openPort();
  the_sandbox.start();
  relay(the_sandbox, port.get());
  port.reset();
  powerOff(nullptr);
}

}  // namespace cloister::guest

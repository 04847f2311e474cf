// SPDX-License-Identifier: Apache-2.0
#include "guest/guest.h"

#include <signal.h>
#include <unistd.h>

#include "guest/machine.h"
#include "guest/relay.h"
#include "guest/sandbox.h"

namespace cloister::guest {
namespace {
Sandbox the_sandbox;
}

void run() {
  if (getpid() != 1) _exit(64);
  signal(SIGCHLD, SIG_IGN);  // nobody waits for what ends
  prepareMachine();
  Fd port = openPort();
  the_sandbox.start();
  relay(the_sandbox, port.get());
  port.reset();
  powerOff(nullptr);
}

}  // namespace cloister::guest

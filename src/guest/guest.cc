// SPDX-License-Identifier: Apache-2.0
#include "guest/guest.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include <stdlib.h>

#include "guest/machine.h"
#include "guest/nester.h"
#include "guest/relay.h"
#include "guest/sandbox.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::guest {
namespace {

Sandbox the_sandbox;

struct Pair {
  Fd ours;
  Fd theirs;
};

Pair makePair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) giveUp("socketpair");
  return {Fd(ends[0]), Fd(ends[1])};
}

}  // namespace

void run() {
  // A VMM with an init of its own may not give us the first number, depending on its version.
  if (getpid() != 1 && getenv(wire::guest::kShown) == nullptr) _exit(64);
  signal(SIGCHLD, SIG_IGN);  // children need no wait(2)
  prepareMachine();
  Fd port = openPort();
  Pair stream = makePair(SOCK_STREAM);
  Pair nester = makePair(SOCK_SEQPACKET);
  the_sandbox.start(kMachine, {0, std::move(stream.theirs), std::move(nester.theirs)});
  const pid_t other = fork();
  if (other < 0) giveUp("fork");
  if (other == 0) {
    port.reset();
    stream.ours.reset();
    serveNester(kMachine, nester.ours.get(), the_sandbox.runner());
  }
  nester.ours.reset();
  if (getenv(wire::guest::kSleeps) != nullptr) sleepUntilWoken(stream.ours.get(), port);
  relay(the_sandbox, stream.ours.get(), port.get());
  port.reset();
  powerOff(nullptr);
}

void runInContainer() {
  if (getpid() != 1) _exit(64);
  prctl(PR_SET_DUMPABLE, 0);
  Fd stream(wire::kRunnerFd);
  endAlone(stream.get());
  Pair nester = makePair(SOCK_SEQPACKET);
  the_sandbox.start(kContainer, {0, std::move(stream), std::move(nester.theirs)});
  endAlone(-1);
  serveNester(kContainer, nester.ours.get(), the_sandbox.runner());
}

}  // namespace cloister::guest

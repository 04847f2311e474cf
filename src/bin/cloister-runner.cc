// SPDX-License-Identifier: Apache-2.0
// cloister-runner: pid 1 of a sandbox. Started by the node's spawner, never by hand.
#include "runner/runner.h"

int main() {
  cloister::runner::run();
}

// SPDX-License-Identifier: Apache-2.0
// cloister-runner: pid 1 of a sandbox. Started by the node's spawner or a zygote, never by hand.
#include "runner/runner.h"

int main(int argc, char** argv) {
  cloister::runner::run(argc > 1 ? argv[1] : nullptr);
}

// SPDX-License-Identifier: Apache-2.0
// cloister-runner: pid 1 of a sandbox. Started by the node's spawner or a zygote, never by hand.
#include <unistd.h>

#include <string_view>

#include "runner/filter.h"
#include "runner/runner.h"
#include "wire/runner.h"

int main(int argc, char** argv) {
  using namespace cloister::runner;
  if (argc > 2 && std::string_view(argv[1]) == cloister::wire::kFilterFlag) {
    if (!enterFilter(argv[2])) _exit(1);
    run(nullptr);
  }
  run(argc > 1 ? argv[1] : nullptr);
}

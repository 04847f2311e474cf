// SPDX-License-Identifier: Apache-2.0
// cloister-runner: pid 1 of a sandbox. Started by the node's spawner or a zygote, never by hand.
#include <unistd.h>

#include <string_view>

#include <stdlib.h>

#include "runner/filter.h"
#include "runner/nest.h"
#include "runner/other_user.h"
#include "runner/process.h"
#include "runner/runner.h"
#include "runner/share.h"
#include "wire/runner.h"

int main(int argc, char** argv) {
  using namespace cloister;
  const char* writes = nullptr;
  int at = 1;
  for (; at + 1 < argc; at += 2) {
    const std::string_view flag = argv[at];
    if (flag == wire::kFilterFlag) {
      if (!runner::enterFilter(argv[at + 1])) _exit(1);
    } else if (flag == wire::kOtherUserFlag) {
      if (!runner::splitUsers()) _exit(1);
    } else if (flag == wire::kProcessorsFlag) {
      const auto processors = static_cast<unsigned>(atoi(argv[at + 1]));
      if (!runner::showShare("", processors, 0) || !runner::useProcessors(processors, 0)) _exit(1);
      if (!runner::dropBounds()) _exit(1);
    } else if (flag == wire::kOwnUserFlag) {
      if (!runner::becomeOwner()) _exit(1);
    } else if (flag == wire::kWritesFlag) {
      writes = argv[at + 1];
    } else if (flag == wire::kOwnLimitFlag) {
      runner::setLimitsAnew();
    } else if (flag == wire::kAtStdinFlag) {
      if (dup2(STDIN_FILENO, wire::kRunnerFd) < 0) _exit(1);
    } else if (flag == wire::kNesterFlag) {
      runner::takeNester(atoi(argv[at + 1]));
    } else {
      break;
    }
  }
  runner::run(at < argc ? argv[at] : nullptr, writes);
}

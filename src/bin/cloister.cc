// SPDX-License-Identifier: Apache-2.0
// `cloister`: the command line, and the supervisor of `cloister serve`.
#include "base/log.h"
#include "cli/command.h"

int main(int argc, char** argv) {
  cloister::base::initLog("cloister");
  return cloister::cli::runCommandLine({argv + 1, argv + argc});
}

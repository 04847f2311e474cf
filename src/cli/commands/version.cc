// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include <unistd.h>

#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

Result<int> version(const Invocation& invocation) {
  if (invocation.globals.json) {
    printJson(base::json::object{{"version", base::version()}});
  } else {
    writeTo(STDOUT_FILENO, "cloister " + std::string(base::version()) + "\n");
  }
  return 0;
}

}  // namespace

const Command kVersion = {
    .name = "version", .summary = "print the version of this program", .run = version};

}  // namespace cloister::cli

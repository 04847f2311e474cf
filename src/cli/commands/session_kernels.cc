// SPDX-License-Identifier: Apache-2.0
// `cloister session kernels`: the interpreters of a session's cells.
#include <unistd.h>

#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr Column kKernels[] = {
    {"NAME", "name"},   {"LANGUAGE", "language"}, {"STATUS", "status"},
    {"CELLS", "cells"}, {"LAST CELL", "number"},  {"STARTED", "started_at", ageOf},
};
constexpr Verb kList = {.path = "/v1/sessions/{}/kernels",
                        .missing = kWhichSession,
                        .items = "kernels",
                        .columns = kKernels};

Result<int> kernels(const Invocation& invocation) {
  const auto name = invocation.flags.text("restart");
  if (!name) return carryOut(kList, invocation);
  const std::string target = TRY(requestTarget(kList, invocation.flags));
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::array one{TRY(call(client, "POST", target + "/" + net::percentEncode(*name) + ":restart"))};
  return showAnswer(kList, invocation, {{"kernels", std::move(one)}});
}

constexpr Flag kFlags[] = {
    {.name = "restart", .value = "NAME", .help = "end this one; its next cell begins afresh"},
};

}  // namespace

const Command kSessionKernels = {
    .name = "session kernels",
    .operands = "ID",
    .max_operands = 1,
    .summary = "list the interpreters that run a session's code, or restart one",
    .flags = kFlags,
    .examples = "cloister session kernels $S\ncloister session kernels $S --restart python",
    .run = kernels};

}  // namespace cloister::cli

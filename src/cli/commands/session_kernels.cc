// SPDX-License-Identifier: Apache-2.0
// `cloister session kernels`: the interpreters that run a session's cells.
#include <unistd.h>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

std::vector<std::string> rowOf(const json::object& kernel) {
  return {textOf(kernel, "name"),  textOf(kernel, "language"), textOf(kernel, "status"),
          textOf(kernel, "cells"), textOf(kernel, "number"),   textOf(kernel, "started_at")};
}

Result<int> kernels(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  if (flags.operands().empty()) {
    return fail(Code::kInvalid, "which session: give its id (see `cloister session list`)");
  }
  const std::string target = "/v1/sessions/" + percentEncode(flags.operands()[0]) + "/kernels";
  HttpClient client = TRY(connect(invocation.globals));
  json::array all;
  if (const auto name = flags.text("restart")) {
    const std::string one = target + "/" + percentEncode(*name) + ":restart";
    all.push_back(TRY(call(client, "POST", one)));
  } else {
    const json::object answer = TRY(call(client, "GET", target));
    all = arrayOf(answer, "kernels");
  }
  if (invocation.globals.json) {
    printJson(json::object{{"kernels", std::move(all)}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "LANGUAGE", "STATUS", "CELLS", "LAST CELL", "STARTED"}};
  for (const json::value& item : all) {
    if (item.is_object()) rows.push_back(rowOf(item.get_object()));
  }
  writeTo(STDOUT_FILENO, table(rows));
  return 0;
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

// SPDX-License-Identifier: Apache-2.0
// `cloister shell`: this terminal, in a session.
#include <signal.h>

#include <optional>

#include "cli/api.h"
#include "cli/command.h"
#include "cli/interactive.h"
#include "cli/job.h"
#include "cli/render/verdict.h"
#include "cli/session_body.h"

namespace cloister::cli {
namespace {

json::object bodyFor(const base::Flags& flags) {
  json::object body;
  json::array command;
  for (const std::string& word : flags.rest())
    command.emplace_back(json::string(word));
  if (command.empty())
    command = {"sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i"};
  body["command"] = std::move(command);
  putTerminal(body);
  return body;
}

Result<int> shell(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  TRY(needTerminal(""));
  const supervisor::Signals signals = TRY(supervisor::Signals::block({SIGTERM, SIGHUP, SIGPIPE}));
  const net::Endpoint endpoint = TRY(needServer(invocation.globals));
  std::optional<OwnSession> own;
  std::string target;
  if (flags.operands().empty()) {
    const json::object body = TRY(sessionBody(flags));
    auto made = TRY(makeSession(endpoint, body, signals.fd()));
    if (!made) {
      return fail(Code::kDenied,
                  "making the session: policy wants an approval; make it with `cloister session "
                  "create --wait-approval`, and give its id");
    }
    own.emplace(*std::move(made));
    target = own->execTarget();
  } else {
    target = "/v1/sessions/" + net::percentEncode(flags.operands()[0]) + "/exec";
  }
  Job job{.endpoint = endpoint,
          .signals = signals,
          .submission = {.target = target, .body = bodyFor(flags)},
          .output = {.print = true, .raw = true, .progress = false}};
  const Outcome ended = TRY(onTerminal(job));
  if (const int* status = std::get_if<int>(&ended)) return *status;
  report(std::get<json::object>(ended), invocation.globals);
  return exitStatus(std::get<json::object>(ended));
}

}  // namespace

const Command kShell = {
    .name = "shell",
    .operands = "[SESSION] [-- COMMAND…]",
    .max_operands = 1,
    .summary = "a terminal in a session",
    .details =
        "Without a SESSION one is made, and ended with the shell; the flags are its own, as of\n"
        "`cloister session create`. Every key goes to the program; its end is the shell's.\n"
        "The exit status is the program's own.",
    .flags = sessionFlags(),
    .examples =
        "cloister shell\n"
        "cloister shell $S\n"
        "cloister shell $S -- vim notes.txt",
    .run = shell,
    .failure_status = kStatusService,
};

}  // namespace cloister::cli

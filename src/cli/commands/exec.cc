// SPDX-License-Identifier: Apache-2.0
// `cloister exec`: runs a program in a session like a local program.
#include <signal.h>
#include <unistd.h>

#include <optional>

#include "cli/api.h"
#include "cli/commands/resources.h"
#include "cli/download.h"
#include "cli/interactive.h"
#include "cli/job.h"
#include "cli/relay.h"
#include "cli/render/outline.h"
#include "cli/render/results.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "cli/session_body.h"
#include "model/execution.h"

namespace cloister::cli {
namespace {

// A background program gets no input, because nobody stays to pass input on.
Result<FirstInput> inputFor(const base::Flags& flags, const supervisor::Signals& signals) {
  const bool asked = flags.has("interactive");
  if (flags.has("background")) {
    for (const char* flag : {"interactive", "tty", "out", "images"}) {
      if (!flags.has(flag)) continue;
      return fail(Code::kInvalid, "--" + std::string(flag) + ": not together with --background");
    }
    return FirstInput{};
  }
  if (flags.has("tty")) return FirstInput{.bytes = {}, .more = true};
  if (!asked && isTerminal(STDIN_FILENO)) return FirstInput{};
  // A program in a separate sandbox gets all input at once.
  if (flags.has("nested") || flags.text("sandbox") == "fresh")
    return FirstInput{TRY(readStdin(signals)), false};
  return firstInput();
}

Result<int> startOnly(Job& job, bool json) {
  const Outcome accepted = TRY(start(job));
  if (const int* own = std::get_if<int>(&accepted)) return *own;
  const auto& execution = std::get<json::object>(accepted);
  if (json) {
    printJson(execution);
  } else {
    writeTo(STDOUT_FILENO, printable(textOf(execution, "id")) + "\n");
  }
  const bool blocked = textOf(execution, "status") == model::statusName(model::Status::kBlocked);
  if (blocked) writeTo(STDERR_FILENO, blockedText(execution, false));
  return blocked || isDenied(execution) ? exitStatus(execution) : 0;
}

// Shows a cell's results, after all its output.
Result<> showResults(const Job& job, const json::object& execution,
                     const std::optional<std::string>& images) {
  if (job.output.print) {
    const std::string text = resultsText(execution);
    const bool filter = !job.output.raw && isTerminal(STDOUT_FILENO);
    writeTo(STDOUT_FILENO, filter ? TerminalFilter()(text) : text);
    writeTo(STDERR_FILENO, leftOutText(execution));
  }
  if (!images) return {};
  const std::string saved = TRY(saveImages(execution, *images));
  writeTo(STDERR_FILENO, saved);
  return {};
}

Result<int> execute(Job& job, const Invocation& invocation, bool more_input) {
  const base::Flags& flags = invocation.flags;
  Outcome at = flags.has("tty") ? TRY(onTerminal(job)) : TRY(runHere(job, more_input));
  if (const int* own = std::get_if<int>(&at)) return *own;
  const auto& execution = std::get<json::object>(at);
  TRY(showResults(job, execution, flags.text("images")));
  report(execution, invocation.globals);
  if (const auto dir = flags.text("out")) {
    const size_t count = TRY(downloadArtifacts(job.client, execution, *dir));
    writeTo(STDERR_FILENO, "cloister: " + std::to_string(count) + " files in " + *dir + "\n");
  }
  return exitStatus(execution);
}

Result<int> execCommand(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  if (flags.operands().empty()) {
    return fail(Code::kInvalid, std::string(kWhichSession));
  }
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  const FirstInput input = TRY(inputFor(flags, signals));
  json::object body = TRY(execBody(flags, input));
  if (flags.has("tty")) {
    TRY(needTerminal("--tty"));
    putTerminal(body);
  }
  const bool json = invocation.globals.json;
  const bool typed = flags.has("interactive") && isTerminal(STDIN_FILENO);
  Job job{
      .endpoint = TRY(needServer(invocation.globals)),
      .signals = signals,
      .submission = {.target = "/v1/sessions/" + net::percentEncode(flags.operands()[0]) + "/exec",
                     .body = std::move(body)},
      .output = {.print = !json,
                 .raw = flags.has("raw") || flags.has("tty"),
                 .progress = !json && !typed && !invocation.globals.quiet,
                 .wait_approval = flags.has("wait-approval")}};
  return flags.has("background") ? startOnly(job, json) : execute(job, invocation, input.more);
}

}  // namespace

const Command kExec = {
    .name = "exec",
    .operands = "SESSION (-c CODE [-- ARGUMENTS] | -- COMMAND…)",
    .max_operands = 1,
    .summary = "run a program in a session's sandbox",
    .details =
        "The program's output streams here, and input that is not a terminal is passed on as it\n"
        "comes. SIGINT, SIGTERM and SIGHUP are passed on too; a second SIGINT cancels the "
        "program.\n"
        "The exit status is the program's own; others are as of `cloister run`: 124 the time was\n"
        "over, 137 killed by the memory limit, 128+N ended by signal N, 127 and 126 there is no\n"
        "such program, 125 the service refused or failed, kept less than all of the output, or "
        "the\n"
        "program waits for an approval: --wait-approval stays until that is decided.\n"
        "Code in a language with kernels runs in an interpreter that stays and keeps its "
        "variables,\n"
        "unless it has ARGUMENTS, --env or --cwd; what it shows comes last.\n"
        "With -i a terminal's lines are passed on; with -t the program has this terminal.\n"
        "With --nested the program has a sandbox of its own within the session's. With --sandbox\n"
        "fresh it has one with the session's files, and with none of its programs.",
    .flags = execFlags(),
    .examples =
        "cloister exec $S -- pip list\n"
        "cloister exec $S -c 'x = 20' && cloister exec $S -c 'x + 1'\n"
        "tar c src | cloister exec $S -- tar x\n"
        "cloister exec $S --nested --memory 128 -c 'print(1)'\n"
        "cloister exec $S --sandbox fresh -- make test\n"
        "cloister exec $S --cwd /tmp -e A=1 -c 'print(input())' --language python\n"
        "cloister exec -it $S -- python3\n"
        "E=$(cloister exec $S --background -- python3 -m http.server)",
    .run = execCommand,
    .failure_status = kStatusService,
};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
// `cloister run`: runs a program in a sandbox like a local program.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/download.h"
#include "cli/job.h"
#include "cli/relay.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "cli/run_body.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

Result<RunSource> readSource(const base::Flags& flags, const supervisor::Signals& signals) {
  RunSource source;
  const auto code = flags.text("code");
  const bool file = !flags.operands().empty();
  if (code.has_value() == file) {
    return fail(Code::kInvalid, "what to run: give either -c CODE, or a FILE, or - for stdin");
  }
  const bool from_stdin = file && flags.operands()[0] == "-";
  if (from_stdin) {
    source.code = TRY(readStdin(signals));
  } else if (file) {
    source.file_name = flags.operands()[0];
    source.code = TRY(base::readFile(source.file_name));
  } else {
    source.code = *code;
  }
  if (!from_stdin && !isTerminal(STDIN_FILENO)) source.input = TRY(readStdin(signals));
  return source;
}

Result<int> finish(Job& job, const Invocation& invocation, const json::object& execution) {
  report(execution, invocation.globals.json);
  if (const auto dir = invocation.flags.text("out")) {
    const size_t count = TRY(downloadArtifacts(job.client, execution, *dir));
    writeTo(STDERR_FILENO, "cloister: " + std::to_string(count) + " files in " + *dir + "\n");
  }
  return exitStatus(execution);
}

Result<int> execute(Job& job, const Invocation& invocation) {
  Outcome at = TRY(start(job));
  if (const json::object* accepted = std::get_if<json::object>(&at);
      accepted != nullptr && !isDenied(*accepted)) {
    at = TRY(follow(job, job.client, textOf(*accepted, "id")));
  }
  if (const int* own = std::get_if<int>(&at)) return *own;
  return finish(job, invocation, std::get<json::object>(at));
}

Result<int> dryRun(Job& job, bool json) {
  const json::object plan =
      TRY(call(job.client, "POST", "/v1/executions?dry_run=true", job.submission.body));
  if (json) {
    printJson(plan);
  } else {
    writeTo(STDOUT_FILENO, outline(plan));
  }
  return 0;
}

Result<int> runCommand(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  const auto source = readSource(flags, signals);
  if (!source) {
    if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    return std::unexpected(source.error());
  }
  json::object body = TRY(runBody(flags, *source));
  const auto service = anyServer(invocation.globals, signals.fd());
  if (!service) {
    if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    return std::unexpected(service.error());
  }
  const bool json = invocation.globals.json;
  Job job{.endpoint = service->endpoint,
          .signals = signals,
          .submission = {.target = "/v1/executions", .body = std::move(body)},
          .output = {.print = !json,
                     .raw = flags.has("raw"),
                     .progress = !json,
                     .wait_approval = flags.has("wait-approval")}};
  return flags.has("dry-run") ? dryRun(job, json) : execute(job, invocation);
}

}  // namespace

const Command kRun = {
    .name = "run",
    .operands = "-c CODE | FILE | - [-- ARGUMENTS]",
    .max_operands = 1,
    .summary = "run a program in a sandbox",
    .details =
        "The program's output streams here, and its exit status becomes this command's. Input\n"
        "that is not a terminal is passed on. Other statuses: 124 the time was over, 137 killed\n"
        "by the memory limit, 128+N ended by signal N, 125 the service refused or failed, or the\n"
        "program waits for an approval: --wait-approval stays until that is decided. With no\n"
        "server on this account, a private one runs for as long as this command.",
    .flags = runFlags(),
    .examples =
        "cloister run -c 'print(6 * 7)'\n"
        "printf 'hi\\n' | cloister run -c 'print(input())'\n"
        "cloister run --timeout 5 --memory 512 script.py -- one two\n"
        "cloister run -l bash -c 'echo data > report.txt' --artifacts '*.txt' --out results\n"
        "cloister run --runtime gvisor -l bash -c 'cat /proc/version'\n"
        "cloister run --dry-run -c 'print(1)'",
    .run = runCommand,
    .failure_status = kStatusService,
};

}  // namespace cloister::cli

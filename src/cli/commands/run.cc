// SPDX-License-Identifier: Apache-2.0
// `cloister run`: runs a program in a sandbox like a local program.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/download.h"
#include "cli/interactive.h"
#include "cli/job.h"
#include "cli/relay.h"
#include "cli/render/decision_text.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "cli/run_body.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

// How the program gets its input.
enum class Input {
  kAtOnce,   // all of it with the request
  kAsComes,  // passed on while the program runs
  kKeys,     // every key of this terminal
};

// A terminal is input, too, unless the request can only be a plain run.
bool isTypedTo(const Invocation& invocation) {
  constexpr std::string_view kPlain[] = {"dry-run", "approval", "wait-approval", "deps-from"};
  const base::Flags& flags = invocation.flags;
  const bool plain =
      invocation.globals.json || std::ranges::any_of(kPlain, [&](auto f) { return flags.has(f); });
  return isTerminal(STDIN_FILENO) && !plain;
}

// -i and -t ask for it; without them a terminal does.
Result<Input> inputOf(const Invocation& invocation, bool from_stdin) {
  const base::Flags& flags = invocation.flags;
  const bool asked = flags.has("interactive") || flags.has("tty");
  if (!asked) return !from_stdin && isTypedTo(invocation) ? Input::kAsComes : Input::kAtOnce;
  const std::string name = flags.has("tty") ? "--tty" : "--interactive";
  if (from_stdin) return fail(Code::kInvalid, name + ": standard input has the code already", name);
  for (const char* other : {"dry-run", "approval", "wait-approval", "deps-from"}) {
    if (flags.has(other))
      return fail(Code::kInvalid, name + ": not together with --" + other, name);
  }
  if (!flags.has("tty")) return Input::kAsComes;
  TRY(needTerminal("--tty"));
  return Input::kKeys;
}

bool isFromStdin(const base::Flags& flags) {
  return !flags.operands().empty() && flags.operands()[0] == "-";
}

Result<RunSource> readSource(const base::Flags& flags, Input input,
                             const supervisor::Signals& signals) {
  RunSource source;
  const auto code = flags.text("code");
  const bool file = !flags.operands().empty();
  if (code.has_value() == file) {
    return fail(Code::kInvalid, "what to run: give either -c CODE, or a FILE, or - for stdin");
  }
  if (isFromStdin(flags)) {
    source.code = TRY(readStdin(signals));
  } else if (file) {
    source.file_name = flags.operands()[0];
    source.code = TRY(base::readFile(source.file_name));
  } else {
    source.code = *code;
  }
  if (input == Input::kAtOnce && !isFromStdin(flags) && !isTerminal(STDIN_FILENO))
    source.input = TRY(readStdin(signals));
  return source;
}

Result<int> finish(Job& job, const Invocation& invocation, const json::object& execution) {
  report(execution, invocation.globals);
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

// The session for an interactive program: what a request says of the sandbox.
json::object sessionFor(const json::object& run) {
  json::object body;
  for (const char* member :
       {"language", "memory_mb", "cpu_millis", "pids", "disk_mb", "timeout_seconds",
        "network_policy", "deps", "runtime", "image", "tier", "secrets"}) {
    if (const json::value* value = run.if_contains(member)) body[member] = *value;
  }
  return body;
}

// The rest of the request: a plain process, in no interpreter.
json::object programFor(const json::object& run) {
  json::object body{{"kernel", "none"}};
  for (const char* member :
       {"language", "code", "args", "env", "timeout_seconds", "files", "artifacts"}) {
    if (const json::value* value = run.if_contains(member)) body[member] = *value;
  }
  if (!body.contains("artifacts")) body["artifacts"] = json::array{"**"};  // as of a plain run
  return body;
}

// Runs in a session of its own. nullopt: none was to be had, and nobody asked for one by a flag.
Result<std::optional<int>> talk(Job& job, const Invocation& invocation, Input input) {
  const base::Flags& flags = invocation.flags;
  const bool asked = flags.has("interactive") || flags.has("tty");
  auto made = makeSession(job.endpoint, sessionFor(job.submission.body), job.signals.fd());
  if (const int signal = made ? 0 : job.signals.take(); signal > 0) return kStatusSignal + signal;
  if (!made && asked) return std::unexpected(made.error());
  if (!made || !*made) {
    if (!asked) return std::nullopt;
    return fail(Code::kDenied,
                "making the session for an interactive program: policy wants an approval; run it "
                "without -i and -t");
  }
  const OwnSession session = **std::move(made);
  json::object program = programFor(job.submission.body);
  FirstInput first{.bytes = {}, .more = true};
  if (input == Input::kKeys) {
    putTerminal(program);
  } else {
    first = TRY(firstInput());
    if (!first.bytes.empty()) putBytes(program, "input", first.bytes);
    if (first.more) program["keep_input"] = true;
  }
  job.submission = {.target = session.execTarget(), .body = std::move(program)};
  job.output.progress = false;
  job.output.raw |= input == Input::kKeys;
  const Outcome ended =
      input == Input::kKeys ? TRY(onTerminal(job)) : TRY(runHere(job, first.more));
  if (const int* own = std::get_if<int>(&ended)) return *own;
  return TRY(finish(job, invocation, std::get<json::object>(ended)));
}

// The decision first; who may not ask policy is told by the plan.
json::object decisionOf(Job& job, const json::object& plan) {
  auto told = call(job.client, "POST", "/v1/policies:explain", {{"request", job.submission.body}});
  if (told) return *std::move(told);
  return {{"decision", "allow"},
          {"reason", "policy allows this run"},
          {"policy_id", textOf(plan, "policy_id")}};
}

int tellDecision(const json::object& decision, const json::object& plan,
                 const Invocation& invocation) {
  const bool allowed = textOf(decision, "decision") == "allow";
  const int status = allowed ? 0 : kStatusService;
  if (invocation.globals.json) {
    json::object whole = plan;
    whole["decision"] = decision;
    printJson(whole);
    return status;
  }
  if (invocation.globals.quiet) return status;
  std::string text = decisionText(decision);
  const bool verbose = invocation.flags.has("verbose");
  if (!plan.empty()) text += verbose ? "\n" + outline(plan) : "(-v prints the whole plan)\n";
  writeTo(STDOUT_FILENO, text);
  return status;
}

Result<int> dryRun(Job& job, const Invocation& invocation) {
  const auto plan = call(job.client, "POST", "/v1/executions?dry_run=true", job.submission.body);
  if (plan) return tellDecision(decisionOf(job, *plan), *plan, invocation);
  if (plan.error().code != Code::kDenied) return std::unexpected(plan.error());
  json::object decision = decisionOf(job, {});
  // A level of the agent, or another rule beside the policy, refuses.
  if (textOf(decision, "decision") == "allow")
    decision = {{"decision", "deny"}, {"reason", plan.error().message}};
  return tellDecision(decision, {}, invocation);
}

// The command line keeps no files unless a flag asks for some, and a request written by hand keeps
// all by default. An approval is of one of the two, so the approved request decides. If the request
// cannot be read, the answer to the run says why.
void keepAsApproved(Job& job, const base::Flags& flags) {
  const auto approval = flags.text("approval");
  if (!approval || flags.has("artifacts")) return;
  const auto whole =
      call(job.client, "GET", "/v1/escalations/" + net::percentEncode(*approval) + "/request");
  if (!whole) return;
  const json::value* kept = objectOf(*whole, "request").if_contains("artifacts");
  if (kept != nullptr) job.submission.body["artifacts"] = *kept;
}

Result<int> carryOutRun(Job& job, const Invocation& invocation, Input input) {
  keepAsApproved(job, invocation.flags);
  if (invocation.flags.has("dry-run")) return dryRun(job, invocation);
  if (input != Input::kAtOnce) {
    if (const auto status = TRY(talk(job, invocation, input))) return *status;
  }
  return execute(job, invocation);
}

Result<int> runCommand(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  const Input input = TRY(inputOf(invocation, isFromStdin(flags)));
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  const auto source = readSource(flags, input, signals);
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
                     .progress = !json && !invocation.globals.quiet,
                     .wait_approval = flags.has("wait-approval")}};
  return carryOutRun(job, invocation, input);
}

}  // namespace

const Command kRun = {
    .name = "run",
    .operands = "-c CODE | FILE | - [-- ARGUMENTS]",
    .max_operands = 1,
    .summary = "run a program in a sandbox",
    .details =
        "The program's output streams here, and its exit status becomes this command's. All input\n"
        "of a pipe or a file is passed on at once. A terminal's lines are passed on as they are\n"
        "typed; with -t the program has the terminal. For that the program runs in a session of\n"
        "its own. --dry-run says what policy decides: 125 unless that is to allow the run.\n"
        "Other statuses: 124 the time was over, 137 killed\n"
        "by the memory limit, 128+N ended by signal N, 125 the service refused or failed, or the\n"
        "program waits for an approval: --wait-approval stays until that is decided. With no\n"
        "server on this account, a private one runs for as long as this command.",
    .flags = runFlags(),
    .examples =
        "cloister run -c 'print(6 * 7)'\n"
        "printf 'hi\\n' | cloister run -c 'print(input())'\n"
        "cloister run --timeout 30s --memory 512MB script.py -- one two\n"
        "cloister run -l bash -c 'echo data > report.txt' --artifacts '*.txt' --out results\n"
        "cloister run --runtime gvisor -l bash -c 'cat /proc/version'\n"
        "cloister run -it -l bash -c 'read -p \"name? \" n; echo hello $n'\n"
        "cloister run --dry-run -c 'print(1)'",
    .run = runCommand,
    .failure_status = kStatusService,
};

}  // namespace cloister::cli

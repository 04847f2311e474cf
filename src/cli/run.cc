// SPDX-License-Identifier: Apache-2.0
// `cloister run`: one program in a sandbox, as if it ran here.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <variant>

#include "base/file.h"
#include "base/id.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/download.h"
#include "cli/follow.h"
#include "cli/outline.h"
#include "cli/run_body.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/verdict.h"
#include "model/execution.h"

namespace cloister::cli {
namespace {

constexpr size_t kMaxStdin = size_t{16} << 20;
constexpr int kStatusBrokenPipe = kStatusSignal + SIGPIPE;

// All of stdin, unless a signal comes first. What cannot be read (closed, a directory) is no input.
Result<std::string> readStdin(const Signals& signals) {
  std::string text;
  char chunk[65'536];
  for (;;) {
    pollfd polled[2] = {{STDIN_FILENO, POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return failErrno("waiting for stdin");
    if (polled[1].revents != 0) return fail(Code::kUnavailable, "reading stdin: interrupted");
    if (polled[0].revents == 0) continue;
    const ssize_t n = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return text;
    text.append(chunk, static_cast<size_t>(n));
    if (text.size() > kMaxStdin) return fail(Code::kTooLarge, "reading stdin: more than 16 MiB");
  }
}

Result<RunSource> readSource(const base::Flags& flags, const Signals& signals) {
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

struct Run {
  const Invocation& invocation;
  const Endpoint& endpoint;
  const Signals& signals;
  HttpClient client;
  json::object body = {};
  // Makes asking again safe: the same key and body are the same execution.
  std::string idempotency_key = base::randomHex(16);
};

Result<json::object> submit(Run& run, HttpClient& client, Millis timeout) {
  const std::string text = base::toJson(run.body);
  const HttpRequest request{.method = "POST",
                            .target = "/v1/executions",
                            .body = text,
                            .headers = {{"Idempotency-Key", run.idempotency_key}}};
  const HttpResponse answer = TRY(client.exchange(request, timeout));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  return parseObject(answer.body);
}

// Whatever happened, nothing may go on running for a user who has gone. `id` is "" when the answer
// that tells it was not waited for.
int abandon(Run& run, std::string id, bool reader_gone) {
  constexpr Millis kPatience{5'000};
  HttpClient client(run.endpoint.url, run.endpoint.key);
  if (id.empty()) {
    if (const auto execution = submit(run, client, kPatience)) id = textOf(*execution, "id");
  }
  if (!id.empty()) {
    const std::string target = "/v1/executions/" + percentEncode(id);
    const auto cancelled = client.exchange({.method = "DELETE", .target = target}, kPatience);
    if (!cancelled) writeTo(STDERR_FILENO, "cloister: " + cancelled.error().message + "\n");
  }
  if (reader_gone) return kStatusBrokenPipe;
  const int signal = run.signals.take();
  return signal > 0 ? kStatusSignal + signal : kStatusService;
}

Result<int> finish(Run& run, const json::object& execution) {
  const base::Flags& flags = run.invocation.flags;
  if (run.invocation.globals.json) {
    printJson(execution);
  } else {
    writeTo(STDERR_FILENO, explain(execution));
  }
  if (const auto dir = flags.text("out")) {
    const size_t count = TRY(downloadArtifacts(run.client, execution, *dir));
    writeTo(STDERR_FILENO, "cloister: " + std::to_string(count) + " files in " + *dir + "\n");
  }
  return exitStatus(execution);
}

// Follows an accepted execution to its end: its last state, or this command's own exit status.
Result<std::variant<json::object, int>> follow(Run& run, const std::string& id) {
  const bool quiet = run.invocation.globals.json;
  const FollowOptions options{
      .print = !quiet, .raw = run.invocation.flags.has("raw"), .progress = !quiet};
  Follower follower(run.client, id, options);
  auto ended = follower.toEnd();
  if (!ended) {
    const int status = abandon(run, id, follower.readerGone());
    if (run.client.interrupted() || follower.readerGone()) return status;
    return std::unexpected(ended.error());
  }
  if (quiet) return TRY(call(run.client, "GET", "/v1/executions/" + percentEncode(id)));
  return *std::move(ended);
}

Result<int> execute(Run& run) {
  constexpr Millis kPatience{60'000};
  auto execution = submit(run, run.client, kPatience);
  if (!execution && execution.error().code == Code::kUnavailable && !run.client.interrupted()) {
    execution = submit(run, run.client, kPatience);  // the control plane may have been restarting
  }
  if (!execution) {
    if (run.client.interrupted()) return abandon(run, "", false);
    return std::unexpected(execution.error());
  }
  if (textOf(*execution, "status") == model::statusName(model::Status::kDenied)) {
    return finish(run, *execution);
  }
  const auto ended = TRY(follow(run, textOf(*execution, "id")));
  if (const int* own = std::get_if<int>(&ended)) return *own;
  return finish(run, std::get<json::object>(ended));
}

Result<int> dryRun(Run& run) {
  const json::object plan = TRY(call(run.client, "POST", "/v1/executions?dry_run=true", run.body));
  if (run.invocation.globals.json) {
    printJson(plan);
  } else {
    writeTo(STDOUT_FILENO, outline(plan));
  }
  return 0;
}

Result<int> runCommand(const Invocation& invocation) {
  const Signals signals = TRY(Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  const auto source = readSource(invocation.flags, signals);
  if (!source) {
    if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    return std::unexpected(source.error());
  }
  json::object body = TRY(runBody(invocation.flags, *source));
  const auto service = anyServer(invocation.globals, signals.fd());
  if (!service) {
    if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    return std::unexpected(service.error());
  }
  Run run{invocation, service->endpoint, signals,
          HttpClient(service->endpoint.url, service->endpoint.key, signals.fd()), std::move(body)};
  return invocation.flags.has("dry-run") ? dryRun(run) : execute(run);
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
        "by the memory limit, 128+N ended by signal N, 125 the service refused or failed. With no\n"
        "server on this account, a private one runs for as long as this command.",
    .flags = runFlags(),
    .examples =
        "cloister run -c 'print(6 * 7)'\n"
        "printf 'hi\\n' | cloister run -c 'print(input())'\n"
        "cloister run --timeout 5 --memory 512 script.py -- one two\n"
        "cloister run -l bash -c 'echo data > report.txt' --artifacts '*.txt' --out results\n"
        "cloister run --dry-run -c 'print(1)'",
    .run = runCommand,
    .failure_status = kStatusService,
};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
// `cloister run`: one program in a sandbox, as if it ran here.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
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

// Whatever happened, nothing may go on running for a user who has gone.
int abandon(const Endpoint& endpoint, const std::string& id, const Signals& signals,
            bool reader_gone) {
  constexpr Millis kPatience{10'000};
  HttpClient client(endpoint.url, endpoint.key);
  if (!id.empty()) {
    const std::string target = "/v1/executions/" + percentEncode(id);
    const auto cancelled = client.exchange({.method = "DELETE", .target = target}, kPatience);
    if (!cancelled) writeTo(STDERR_FILENO, "cloister: " + cancelled.error().message + "\n");
  }
  if (reader_gone) return kStatusBrokenPipe;
  const int signal = signals.take();
  return signal > 0 ? kStatusSignal + signal : kStatusService;
}

struct Run {
  const Invocation& invocation;
  const Endpoint& endpoint;
  const Signals& signals;
  HttpClient client;
};

Result<json::object> finalState(Run& run, const std::string& id, const FollowOptions& options,
                                bool& reader_gone) {
  Follower follower(run.client, id, options);
  auto ended = follower.toEnd();
  reader_gone = follower.readerGone();
  return ended;
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

Result<int> execute(Run& run, const json::object& body) {
  const bool json_output = run.invocation.globals.json;
  // With --json nothing streams, so the answer itself may be the result: one round trip.
  const std::string target = json_output ? "/v1/executions?wait=300" : "/v1/executions";
  constexpr Millis kPatience{330'000};
  const std::string text = base::toJson(body);
  const auto answer =
      run.client.exchange({.method = "POST", .target = target, .body = text}, kPatience);
  if (!answer) {
    if (run.client.interrupted()) return abandon(run.endpoint, "", run.signals, false);
    return std::unexpected(answer.error());
  }
  if (answer->head.status >= 300) return std::unexpected(refusal(answer->head, answer->body));
  json::object execution = TRY(parseObject(answer->body));
  const std::string id = textOf(execution, "id");
  const auto status = model::statusFromName(textOf(execution, "status"));
  if (status && model::isTerminal(*status)) return finish(run, execution);

  bool reader_gone = false;
  const bool raw = run.invocation.flags.has("raw");
  const FollowOptions options{.print = !json_output, .raw = raw, .progress = !json_output};
  auto ended = finalState(run, id, options, reader_gone);
  if (!ended) {
    const int status_now = abandon(run.endpoint, id, run.signals, reader_gone);
    if (run.client.interrupted() || reader_gone) return status_now;
    return std::unexpected(ended.error());
  }
  if (json_output) {
    ended = call(run.client, "GET", "/v1/executions/" + percentEncode(id));
    if (!ended) return std::unexpected(ended.error());
  }
  return finish(run, *ended);
}

Result<int> dryRun(Run& run, const json::object& body) {
  const json::object plan = TRY(call(run.client, "POST", "/v1/executions?dry_run=true", body));
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
  const json::object body = TRY(runBody(invocation.flags, *source));
  const auto service = anyServer(invocation.globals, signals.fd());
  if (!service) {
    if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    return std::unexpected(service.error());
  }
  Run run{invocation, service->endpoint, signals,
          HttpClient(service->endpoint.url, service->endpoint.key, signals.fd())};
  return invocation.flags.has("dry-run") ? dryRun(run, body) : execute(run, body);
}

}  // namespace

const Command kRun = {
    .name = "run",
    .operands = "-c CODE | FILE | - [-- ARGUMENTS]",
    .max_operands = 1,
    .summary = "run a program in a sandbox",
    .details =
        "The program's output streams here, and its exit status becomes this command's. Input "
        "that\n"
        "is not a terminal is passed on. Other statuses: 124 the time was over, 137 killed by the\n"
        "memory limit, 128+N ended by signal N, 125 the service refused or failed. With no server\n"
        "on this account, a private one runs for as long as this command.",
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

// SPDX-License-Identifier: Apache-2.0
// `cloister execution …`: the records of runs.
#include <signal.h>
#include <unistd.h>

#include "base/crypto.h"
#include "cli/commands/resources.h"
#include "cli/follow.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr std::string_view kWhich = "which execution: give its id (see `cloister execution list`)";
constexpr std::string_view kPath = "/v1/executions/{}";

std::string endOf(const json::object& execution, std::string_view) {
  const std::string signal = textOf(execution, "signal");
  return signal.empty() ? textOf(execution, "exit_code") : signal;
}

// The output has a separate command, which prints more than a line.
std::string recordText(const json::object& execution) {
  json::object record = execution;
  for (const std::string_view name : {"stdout", "stderr", "stdout_encoding", "stderr_encoding"})
    record.erase(name);
  return outline(record);
}

Result<int> logs(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  constexpr int64_t kMostLines = 1'000'000;
  std::string target =
      TRY(requestTarget({.path = kPath, .missing = kWhich}, flags)) +
      "/logs?stream=" + net::percentEncode(flags.text("stream").value_or("stdout"));
  const auto tail = TRY(flags.integer("tail", 1, kMostLines));
  if (tail) target += "&tail_lines=" + std::to_string(*tail);
  net::BlockingClient client = TRY(connect(invocation.globals));
  const net::HttpResponse answer =
      TRY(client.exchange({.method = "GET", .target = target, .accept = "*/*"}));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  if (invocation.globals.json) {
    json::object output{{"stream", flags.text("stream").value_or("stdout")},
                        {"data", base::isUtf8(answer.body) ? answer.body : ""}};
    if (!base::isUtf8(answer.body))
      output = {{"data", base::toBase64(answer.body)}, {"encoding", "base64"}};
    printJson(output);
    return 0;
  }
  const bool filtered = isTerminal(STDOUT_FILENO) && !flags.has("raw");
  writeTo(STDOUT_FILENO, filtered ? TerminalFilter()(answer.body) : answer.body);
  return 0;
}

Result<int> watch(const Invocation& invocation) {
  const std::string target =
      TRY(requestTarget({.path = kPath, .missing = kWhich}, invocation.flags));
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  net::BlockingClient client = TRY(connect(invocation.globals, signals.fd()));
  const bool json_output = invocation.globals.json;
  Follower follower(
      client, invocation.flags.operands()[0],
      {.print = !json_output, .raw = invocation.flags.has("raw"), .progress = !json_output});
  auto ended = follower.toEnd();
  if (!ended) {
    if (const int signal = signals.take(); signal > 0) return kStatusSignal + signal;
    return std::unexpected(ended.error());
  }
  if (auto whole = follower.rest(client, *ended); !whole) return kStatusSignal + SIGPIPE;
  if (json_output) {
    printJson(TRY(call(client, "GET", target)));
  } else {
    writeTo(STDERR_FILENO, explain(*ended));
  }
  return exitStatus(*ended);
}

constexpr Column kExecutions[] = {
    {"ID", "id"},
    {"STATUS", "status"},
    {"END", "", endOf},
    {"LANGUAGE", "language"},
    {"WALL MS", "resource_usage.wall_ms"},
    {"AGE", "created_at", ageOf},
    {.heading = "TENANT", .member = "principal.tenant", .fit = Fit::kWide},
};
constexpr Verb kList = {.path = "/v1/executions",
                        .query = "status agent",
                        .items = "executions",
                        .paged = true,
                        .columns = kExecutions};
constexpr Verb kShow = {.path = kPath, .missing = kWhich, .text = recordText};
constexpr Verb kCancel = {
    .method = "DELETE", .path = kPath, .missing = kWhich, .said = "{id}: {status}\n"};
// JSON, for programs that read bills of materials.
std::string billText(const json::object& bill) {
  return base::toJson(bill) + "\n";
}

// JSON, as POST /v1/executions takes it.
std::string requestText(const json::object& answer) {
  return base::toJson(answer.at("request")) + "\n";
}

constexpr Verb kRequest = {
    .path = "/v1/executions/{}/request", .missing = kWhich, .text = requestText};
constexpr Verb kSbom = {.path = "/v1/executions/{}/sbom", .missing = kWhich, .text = billText};
constexpr Flag kListFlags[] = {
    {.name = "status",
     .value = "STATUS",
     .help = "only these (queued, running, completed, …)",
     .choices = "queued running blocked completed failed timed_out cancelled denied"},
    {.name = "agent", .value = "NAME", .help = "only this agent's"},
    {.name = "limit", .value = "N", .help = "at most so many, newest first (default 20)"},
};
constexpr Flag kLogFlags[] = {
    {.name = "stream",
     .value = "NAME",
     .help = "stdout (default) or stderr",
     .choices = "stdout stderr"},
    {.name = "tail", .value = "N", .help = "only the last lines"},
    {.name = "raw", .value = "", .help = "let control sequences reach the terminal"},
};
constexpr Flag kWatchFlags[] = {
    {.name = "raw", .value = "", .help = "let control sequences reach the terminal"},
};

}  // namespace

const Command kExecutionList = {.name = "execution list",
                                .summary = "list executions, newest first",
                                .flags = kListFlags,
                                .examples = "cloister execution list --status failed --limit 50",
                                .run = carryOut<kList>};
const Command kExecutionShow = {.name = "execution show",
                                .operands = "ID",
                                .max_operands = 1,
                                .summary = "show one execution's record",
                                .run = carryOut<kShow>};
const Command kExecutionLogs = {.name = "execution logs",
                                .operands = "ID",
                                .max_operands = 1,
                                .summary = "print what a program wrote",
                                .flags = kLogFlags,
                                .examples = "cloister execution logs ID --stream stderr --tail 20",
                                .run = logs};
const Command kExecutionWatch = {.name = "execution watch",
                                 .operands = "ID",
                                 .max_operands = 1,
                                 .summary = "follow an execution to its end, and exit as it did",
                                 .flags = kWatchFlags,
                                 .run = watch,
                                 .failure_status = kStatusService};
const Command kExecutionSbom = {
    .name = "execution sbom",
    .operands = "ID",
    .max_operands = 1,
    .summary = "print the bill of materials of what an execution had installed (CycloneDX)",
    .run = carryOut<kSbom>};
const Command kExecutionRequest = {
    .name = "execution request",
    .operands = "ID",
    .max_operands = 1,
    .summary = "print the request of an execution, as POST /v1/executions takes it",
    .run = carryOut<kRequest>};
const Command kExecutionCancel = {.name = "execution cancel",
                                  .operands = "ID",
                                  .max_operands = 1,
                                  .summary = "stop an execution",
                                  .run = carryOut<kCancel>};

}  // namespace cloister::cli

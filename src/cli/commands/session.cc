// SPDX-License-Identifier: Apache-2.0
// `cloister session …`: sandboxes that outlive a program.
#include <unistd.h>

#include "cli/commands/resources.h"
#include "cli/event_stream.h"
#include "cli/job.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "cli/session_body.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr Verb kMade = {.said = "{id}\n"};

std::string waitsText(const json::object& session, bool waits) {
  const json::object& error = objectOf(session, "error");
  const std::string escalation = printable(textOf(objectOf(error, "details"), "escalation_id"));
  const std::string text = "cloister: blocked: " + printable(textOf(error, "message")) + "\n";
  if (waits || escalation.empty()) return text;
  const std::string id = printable(textOf(session, "id"));
  return text + "cloister: " + id +
         " is made once somebody else approves it: `cloister escalation " + "approve " +
         escalation + "`. `cloister session show " + id + "` shows what became of it\n";
}

// True once a blocked session runs or has ended.
Result<bool> isDecided(const net::SseEvent& event) {
  if (event.type != "status") return false;
  const json::object data = TRY(parseObject(event.data));
  const std::string status = textOf(data, "status");
  return status == "running" || status == "ended";
}

Result<int> create(const Invocation& invocation) {
  const Submission submission{.target = "/v1/sessions", .body = TRY(sessionBody(invocation.flags))};
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::object session = TRY(submit(client, submission));
  const std::string id = textOf(session, "id");
  if (textOf(session, "status") == "blocked") {
    const bool waits = invocation.flags.has("wait-approval");
    writeTo(STDERR_FILENO, waitsText(session, waits));
    if (!waits) {
      showAnswer(kMade, invocation, session);
      return kStatusService;
    }
    TRY(readStream(invocation.globals, "/v1/sessions/" + net::percentEncode(id) + "/events",
                   isDecided));
    session = TRY(call(client, "GET", "/v1/sessions/" + net::percentEncode(id)));
    if (textOf(session, "status") != "running") {
      return fail(Code::kDenied,
                  "making the session: " + textOf(objectOf(session, "end_reason"), "message"));
    }
  }
  return showAnswer(kMade, invocation, session);
}

std::string endOf(const json::object& session, std::string_view) {
  const std::string end = textOf(objectOf(session, "end_reason"), "type");
  return end.empty() ? dueOf(session, "expires_at") : end;
}

Result<json::object> moveBody(const base::Flags& flags) {
  json::object body;
  for (const char* name : {"runtime", "tier"}) {
    if (const auto text = flags.text(name)) body[name] = *text;
  }
  if (flags.has("end-programs")) body["end_programs"] = true;
  return body;
}

std::string lineOf(const net::SseEvent& event, const json::object& data) {
  std::string line = event.type + " " + textOf(data, event.type == "status" ? "status" : "id");
  const std::string end = textOf(objectOf(data, "end_reason"), "message");
  if (event.type != "status") line += " " + textOf(data, "status");
  if (!end.empty()) line += ": " + end;
  return line;
}

Result<bool> tell(const net::SseEvent& event, bool json) {
  json::object data = TRY(parseObject(event.data));
  const bool last = event.type == "status" && textOf(data, "status") == "ended";
  const std::string text =
      json ? streamed(json::object{{"event", event.type}, {"data", std::move(data)}})
           : printable(lineOf(event, data)) + "\n";
  if (writeTo(STDOUT_FILENO, text)) return last;
  return fail(Code::kUnavailable, "writing the events: nobody reads them");
}

Result<int> events(const Invocation& invocation) {
  const std::string target = TRY(requestTarget(
      {.path = "/v1/sessions/{}/events", .missing = kWhichSession}, invocation.flags));
  return readStream(invocation.globals, target, [&](const net::SseEvent& event) {
    return tell(event, invocation.globals.json);
  });
}

constexpr Column kSessions[] = {
    {"ID", "id"},
    {"NAME", "name"},
    {"STATUS", "status"},
    {.heading = "RUNNING", .member = "executions_running", .fit = Fit::kWide},
    {.heading = "LANGUAGE", .member = "language", .fit = Fit::kWide},
    {.heading = "TENANT", .member = "principal.tenant", .fit = Fit::kWide},
    {"AGE", "created_at", ageOf},
    {"ENDS", "", endOf},
};
constexpr Verb kList = {.path = "/v1/sessions",
                        .query = "status agent",
                        .items = "sessions",
                        .paged = true,
                        .columns = kSessions};
constexpr Verb kShow = {.path = "/v1/sessions/{}", .missing = kWhichSession, .text = outline};
constexpr Verb kRenew = {.method = "POST",
                         .path = "/v1/sessions/{}/renew",
                         .missing = kWhichSession,
                         .body = renewalBody,
                         .said = "{id}: expires at {expires_at}\n"};
constexpr Verb kMove = {.method = "POST",
                        .path = "/v1/sessions/{}:move",
                        .missing = kWhichSession,
                        .body = moveBody,
                        .said = "{id}: in runtime {provenance.runtime}\n"};
constexpr Verb kEnd = {.method = "DELETE",
                       .path = "/v1/sessions/{}",
                       .missing = kWhichSession,
                       .each = "ended",
                       .items = "sessions"};
constexpr Flag kListFlags[] = {
    {.name = "status",
     .value = "STATUS",
     .help = "only these (creating, blocked, running, ended)",
     .choices = "creating blocked running ended"},
    {.name = "agent", .value = "NAME", .help = "only this agent's"},
    {.name = "limit", .value = "N", .help = "at most so many, newest first (default 20)"},
};
constexpr Flag kMoveFlags[] = {
    {.name = "runtime", .value = "NAME", .help = "gvisor or microvm"},
    {.name = "tier",
     .value = "NAME",
     .help = "Assisted, HumanApprove or ManualOnly",
     .choices = "Assisted HumanApprove ManualOnly"},
    {.name = "end-programs", .value = "", .help = "end what runs in it first"},
};
constexpr size_t kManyIds = 1000;

}  // namespace

const Command kSessionCreate = {
    .name = "session create",
    .summary = "make a sandbox that outlives one program, and print its id",
    .details =
        "Programs run in it with `cloister exec`, beside each other; files stay between them. It\n"
        "ends when it is told to, when its time is over, or with the server. Where policy wants "
        "an\n"
        "approval, the session is blocked: its id is printed, the escalation is named on standard\n"
        "error, and the exit status is 125. --wait-approval waits instead: 0 means that the\n"
        "session runs, 3 that it was refused.",
    .flags = sessionFlags(),
    .examples =
        "S=$(cloister session create --language python --ttl 2h)\n"
        "cloister session create --name build && cloister exec build -- make\n"
        "cloister session create --memory 1g -e TOKEN=x --metadata task=42",
    .run = create};
const Command kSessionList = {.name = "session list",
                              .summary = "list sessions, newest first, ended ones too",
                              .flags = kListFlags,
                              .examples = "cloister session list --status running",
                              .run = carryOut<kList>};
const Command kSessionShow = {.name = "session show",
                              .operands = "ID",
                              .max_operands = 1,
                              .summary = "show one session's record",
                              .run = carryOut<kShow>};
const Command kSessionRenew = {.name = "session renew",
                               .operands = "ID",
                               .max_operands = 1,
                               .summary = "let a session live longer, from now on",
                               .flags = renewalFlags(),
                               .examples = "cloister session renew ID --ttl 1h",
                               .run = carryOut<kRenew>};
const Command kSessionMove = {
    .name = "session move",
    .operands = "ID",
    .max_operands = 1,
    .summary = "move a session behind stronger walls, with its files",
    .details =
        "Without --runtime or --tier, behind those that policy wants by now. Its kernels start\n"
        "afresh, and /tmp is empty.",
    .flags = kMoveFlags,
    .examples = "cloister session move ID --runtime gvisor",
    .run = carryOut<kMove>};
const Command kSessionEnd = {.name = "session end",
                             .operands = "ID...",
                             .max_operands = kManyIds,
                             .summary = "end sessions, and what runs in them",
                             .run = carryOut<kEnd>};
const Command kSessionRm = {.name = "session rm",
                            .operands = "ID...",
                            .max_operands = kManyIds,
                            .summary = "the same as `session end`",
                            .run = carryOut<kEnd>};
const Command kSessionEvents = {.name = "session events",
                                .operands = "ID",
                                .max_operands = 1,
                                .summary = "print what happens in a session, to its end",
                                .run = events};

}  // namespace cloister::cli

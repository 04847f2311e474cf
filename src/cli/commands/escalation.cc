// SPDX-License-Identifier: Apache-2.0
// `cloister escalation …`: requests to exceed policy, and decisions on requests. All text of a
// request is hostile to its approver: the server sends the text escaped, and only printable lines
// reach the terminal.
#include <unistd.h>

#include <ctime>

#include "base/file.h"
#include "cli/commands/resources.h"
#include "cli/render/amounts.h"
#include "cli/render/escalation_text.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/request_text.h"

namespace cloister::cli {
namespace {

using base::Flag;
using base::Flags;

// For `approve ID` and `approve --request ID`.
Result<std::string> idOf(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  const auto flag = invocation.flags.text("request");
  if (flag && !operands.empty()) {
    return fail(Code::kInvalid, "which escalation: give its id once, as operand or as --request");
  }
  if (flag) return *flag;
  if (!operands.empty()) return operands[0];
  return fail(Code::kInvalid,
              "which escalation: give its id, as ESC-2026-001 (see `cloister escalation pending`)");
}

std::string targetOf(const std::string& id, std::string_view action, const Flags& flags) {
  std::string target = "/v1/escalations/" + net::percentEncode(id) + std::string(action);
  if (const auto tenant = flags.text("tenant")) target += "?tenant=" + net::percentEncode(*tenant);
  return target;
}

Result<json::object> requestBody(const Flags& flags) {
  json::object body;
  for (const std::string_view name : {"operation", "path", "command", "host", "reason"}) {
    if (const auto value = flags.text(name)) body[name] = *value;
  }
  if (!body.contains("operation")) {
    return fail(Code::kInvalid, "--operation: is required, as file_write (see --help)");
  }
  if (const auto file = flags.text("run")) {
    constexpr size_t kMost = size_t{64} << 20;
    const std::string text = TRY(base::readFile(*file, kMost));
    const json::value run = TRY(base::parseJson(text, {.max_bytes = kMost}));
    if (!run.is_object()) {
      return fail(Code::kInvalid, "--run: must be a file with the JSON object of a run request");
    }
    body["request"] = run;
  }
  return body;
}

Result<int> showWhole(const Invocation& invocation) {
  const std::string id = TRY(idOf(invocation));
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::object one = TRY(call(client, "GET", targetOf(id, "", invocation.flags)));
  json::object whole;
  if (invocation.flags.has("full")) {
    whole = TRY(call(client, "GET", targetOf(id, "/request", invocation.flags)));
  }
  if (invocation.globals.json) {
    if (!whole.empty()) one["whole"] = std::move(whole);
    printJson(one);
  } else if (whole.empty()) {
    writeTo(STDOUT_FILENO, shownText(one, std::time(nullptr)));
  } else {
    one.erase("display");
    writeTo(STDOUT_FILENO, shownText(one, std::time(nullptr)) + requestText(whole));
  }
  return 0;
}

Result<json::object> vote(const Invocation& invocation, net::BlockingClient& client,
                          std::string_view action) {
  const std::string id = TRY(idOf(invocation));
  json::object body;
  for (const std::string_view name : {"reason", "approver"}) {
    if (const auto value = invocation.flags.text(name)) body[name] = *value;
  }
  if (action == ":approve") {
    if (const auto time = TRY(secondsFlag(invocation.flags, "for"))) body["grant_seconds"] = *time;
  }
  return call(client, "POST", targetOf(id, action, invocation.flags), body);
}

// The continued execution, once ended or after the time limit.
Result<json::object> waitFor(net::BlockingClient& client, const std::string& id, int64_t seconds) {
  const auto until = base::monotonicNow() + std::chrono::seconds(seconds);
  while (true) {
    json::object execution = TRY(call(client, "GET", "/v1/executions/" + net::percentEncode(id)));
    if (!isUnderWay(execution) || base::monotonicNow() >= until) return execution;
    constexpr timespec kPause{0, 200'000'000};
    ::nanosleep(&kPause, nullptr);
  }
}

// The execution of an approved escalation, once its start is decided: policy is asked again after
// the approval, and may deny. Empty if nothing waits or the execution cannot be read. A program of
// a session may wait for the session for long, so such a program is not waited for.
json::object decidedStart(net::BlockingClient& client, const json::object& escalation) {
  constexpr std::chrono::seconds kMost{10};
  const std::string id = textOf(escalation, "execution_id");
  if (id.empty() || textOf(escalation, "status") == "pending") return {};
  const bool waits = textOf(escalation, "session_id").empty();
  const auto until = base::monotonicNow() + kMost;
  while (true) {
    const auto execution = call(client, "GET", "/v1/executions/" + net::percentEncode(id));
    if (!execution) return {};
    const bool blocked = textOf(*execution, "status") == "blocked";
    if (!blocked || !waits || base::monotonicNow() >= until) return *execution;
    constexpr timespec kPause{0, 100'000'000};
    ::nanosleep(&kPause, nullptr);
  }
}

Result<int> approve(const Invocation& invocation) {
  const int64_t wait = TRY(secondsFlag(invocation.flags, "wait")).value_or(0);
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object decided = TRY(vote(invocation, client, ":approve"));
  if (invocation.globals.json) {
    printJson(decided);
    return 0;
  }
  const json::object start = decidedStart(client, decided);
  writeTo(STDOUT_FILENO, approvedText(decided, start));
  const std::string execution = textOf(decided, "execution_id");
  if (wait == 0 || execution.empty() || textOf(decided, "status") == "pending") return 0;
  if (neverStarted(start)) return 0;
  const json::object ended = TRY(waitFor(client, execution, wait));
  writeTo(STDOUT_FILENO, endedText(ended));
  return 0;
}

Result<int> deny(const Invocation& invocation) {
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object decided = TRY(vote(invocation, client, ":deny"));
  return showAnswer({.text = deniedText}, invocation, decided);
}

Result<int> policy(const Invocation& invocation) {
  const auto agent = invocation.flags.text("agent");
  if (!agent) return fail(Code::kInvalid, "--agent: is required");
  const std::string target = "/v1/agents/" + net::percentEncode(*agent) + "/escalation-policy";
  net::BlockingClient client = TRY(connect(invocation.globals));
  json::object answer;
  if (const auto word = invocation.flags.text("auto-approve")) {
    answer = TRY(call(client, "PUT", target, json::object{{"auto_approve", *word}}));
  } else {
    answer = TRY(call(client, "GET", target));
  }
  return showAnswer({.text = policyText}, invocation, answer);
}

std::string shortOf(const json::object& object, std::string_view name) {
  return shortText(textOf(object, name));
}

std::string approvalsOf(const json::object& one, std::string_view) {
  return textOf(one, "approvals") + "/" + textOf(one, "quorum");
}

// One that ended with its run has time left, but nobody can use it.
std::string expiryOf(const json::object& one, std::string_view) {
  return textOf(one, "ended_reason").empty() ? dueOf(one, "expires_at") : "withdrawn";
}

constexpr Column kEscalations[] = {
    {"ID", "id"},
    {"STATUS", "status"},
    {"AGENT", "requester.agent"},
    {"OPERATION", "operation"},
    {"WHAT", "subject", shortOf},
    {"VOTES", "", approvalsOf},
    {"EXPIRES", "", expiryOf},
    {"REASON", "reason", shortOf},
};
constexpr Verb kRequest = {
    .method = "POST", .path = "/v1/escalations", .body = requestBody, .text = requestedText};
constexpr Verb kPending = {.path = "/v1/escalations?status=pending",
                           .query = "agent",
                           .items = "escalations",
                           .paged = true,
                           .columns = kEscalations,
                           .empty = "no escalations\n"};
constexpr Verb kList = {.path = "/v1/escalations",
                        .query = "agent status",
                        .items = "escalations",
                        .paged = true,
                        .columns = kEscalations,
                        .empty = "no escalations\n"};
constexpr Flag kRequestFlags[] = {
    {.name = "operation",
     .value = "NAME",
     .help = "run, file_read, file_write, file_delete, command or network"},
    {.name = "path",
     .value = "PATH",
     .help = "of a file operation: a file, or a directory with / at its end"},
    {.name = "command", .value = "TEXT", .help = "of a command"},
    {.name = "host", .value = "NAME", .help = "of a network operation"},
    {.name = "run",
     .value = "FILE",
     .help = "of a run: its request, as POST /v1/executions gets it"},
    {.name = "reason", .value = "TEXT", .help = "what it is for; those who decide read it"},
};
constexpr Flag kListFlags[] = {
    {.name = "agent", .value = "NAME", .help = "only of this agent"},
    {.name = "limit", .value = "N", .help = "how many (default 20)"},
};
constexpr Flag kAllFlags[] = {
    {.name = "agent", .value = "NAME", .help = "only of this agent"},
    {.name = "status",
     .value = "STATUS",
     .help = "only pending, approved, denied, expired or used ones",
     .choices = "pending approved denied expired used"},
    {.name = "limit", .value = "N", .help = "how many (default 20)"},
};
constexpr Flag kShowFlags[] = {
    {.name = "full",
     .value = "",
     .help = "the whole request: nothing is cut, and unusual characters are marked"},
    {.name = "tenant", .value = "NAME", .help = "whose it is, for an administrator"},
};
constexpr Flag kApproveFlags[] = {
    {.name = "request", .value = "ID", .help = "the escalation, where it is not the operand"},
    {.name = "approver", .value = "NAME", .help = "who you are; the credential must be theirs"},
    {.name = "reason", .value = "TEXT", .help = "kept with the decision"},
    {.name = "for",
     .value = "TIME",
     .help = "how long the approval is good, at most as configured"},
    {.name = "wait", .value = "TIME", .help = "tell what becomes of the execution that goes on"},
    {.name = "tenant", .value = "NAME", .help = "whose it is, for an administrator"},
};
constexpr Flag kDenyFlags[] = {
    {.name = "request", .value = "ID", .help = "the escalation, where it is not the operand"},
    {.name = "reason", .value = "TEXT", .help = "why; the requester reads it"},
    {.name = "approver", .value = "NAME", .help = "who you are; the credential must be theirs"},
    {.name = "tenant", .value = "NAME", .help = "whose it is, for an administrator"},
};
constexpr Flag kPolicyFlags[] = {
    {.name = "agent", .value = "NAME", .help = "the agent"},
    {.name = "auto-approve",
     .value = "WHAT",
     .help = "safe: what the levels list as safe needs nobody (without a level: reading); none",
     .choices = "safe none"},
};

}  // namespace

const Command kEscalationRequest = {
    .name = "escalation request",
    .summary = "ask for more than policy allows",
    .flags = kRequestFlags,
    .examples =
        "cloister escalation request --operation file_write \\\n"
        "  --path src/security/auth.rs --reason \"auth refactoring task\"\n"
        "cloister escalation request --operation run --run job.json --reason \"release\"",
    .run = carryOut<kRequest>};
const Command kEscalationPending = {.name = "escalation pending",
                                    .summary = "list what waits for a decision",
                                    .flags = kListFlags,
                                    .examples = "cloister escalation pending --agent alice",
                                    .run = carryOut<kPending>};
const Command kEscalationList = {.name = "escalation list",
                                 .summary = "list escalations, newest first",
                                 .flags = kAllFlags,
                                 .run = carryOut<kList>};
const Command kEscalationShow = {.name = "escalation show",
                                 .operands = "ID",
                                 .max_operands = 1,
                                 .summary = "show what would run, and who has decided",
                                 .flags = kShowFlags,
                                 .examples =
                                     "cloister escalation show ESC-2026-001\n"
                                     "cloister escalation show ESC-2026-001 --full",
                                 .run = showWhole};
const Command kEscalationApprove = {
    .name = "escalation approve",
    .operands = "[ID]",
    .max_operands = 1,
    .summary = "approve an escalation of somebody else",
    .details =
        "What waits for it goes on by itself. It takes another person than who asked, with a\n"
        "credential of their own and one of the roles that the escalation names.",
    .flags = kApproveFlags,
    .examples =
        "cloister escalation approve ESC-2026-001 --approver security-lead\n"
        "cloister escalation approve --request ESC-2026-001 --wait 1m",
    .run = approve};
const Command kEscalationDeny = {
    .name = "escalation deny",
    .operands = "[ID]",
    .max_operands = 1,
    .summary = "deny an escalation, or take back an approval that was not used",
    .flags = kDenyFlags,
    .examples = "cloister escalation deny --request ESC-2026-001 --reason \"unsafe\"",
    .run = deny};
const Command kEscalationPolicy = {
    .name = "escalation policy",
    .summary = "show or set what an agent's escalations meet",
    .flags = kPolicyFlags,
    .examples = "cloister escalation policy --agent alice --auto-approve safe",
    .run = policy};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
// `cloister tool …`: calls of the tools in the server's registry.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <variant>

#include "base/crypto.h"
#include "cli/commands/resources.h"
#include "cli/job.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "model/execution.h"
#include "supervisor/signals.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr Millis kPatience{320'000};  // a call answers within 300 s

// "   needs file_read; network none; risk low (Auto); at most memory_mb 128\n"
std::string rulesText(const json::object& tool) {
  std::string text;
  for (const json::value& need : arrayOf(tool, "capabilities")) {
    if (!need.is_string()) continue;
    text += (text.empty() ? "   needs " : ", ") + printable(std::string(need.get_string()));
  }
  text += "; network " + printable(textOf(tool, "network")) + "; risk " +
          printable(textOf(tool, "risk")) + " (" + printable(textOf(tool, "tier")) + ")";
  std::string limits;
  for (const auto& limit : objectOf(tool, "limits")) {
    limits += (limits.empty() ? "; at most " : ", ") + printable(std::string(limit.key())) + " " +
              base::toJson(limit.value());
  }
  return text + limits + "\n";
}

std::string capabilityText(const json::object& tool) {
  std::string text = printable(textOf(tool, "id")) + "  " + printable(textOf(tool, "title")) + "\n";
  const json::object& schema = objectOf(tool, "arguments");
  const json::array& required = arrayOf(schema, "required");
  for (const auto& member : objectOf(schema, "properties")) {
    const json::object* argument = member.value().if_object();
    if (argument == nullptr) continue;
    const bool needed = std::ranges::find(required, json::value(member.key())) != required.end();
    text += "   " + printable(member.key()) + (needed ? " (required): " : ": ") +
            printable(textOf(*argument, "description")) + "\n";
  }
  return text + rulesText(tool);
}

std::string capabilitiesText(const json::object& answer) {
  std::string text;
  for (const json::value& tool : arrayOf(answer, "tools")) {
    if (tool.is_object()) text += capabilityText(tool.get_object());
  }
  return text;
}

constexpr Verb kList = {.path = "/v1/capabilities", .text = capabilitiesText};

// --arguments, overridden by --arg.
Result<json::object> argumentsOf(const base::Flags& flags) {
  json::object arguments;
  if (const auto text = flags.text("arguments")) arguments = TRY(readObject(*text, "--arguments"));
  for (const std::string& pair : flags.all("arg")) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Code::kInvalid, "--arg: give NAME=VALUE, or --arguments with JSON");
    }
    arguments[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return arguments;
}

// Writes the tool's output, made harmless for a terminal.
void writeOutput(int fd, const json::object& output, const std::string& stream) {
  std::string text = textOf(output, stream);
  if (textOf(output, stream + "_encoding") == "base64") {
    text = base::fromBase64(text).value_or(std::string());
  }
  writeTo(fd, isTerminal(fd) ? TerminalFilter()(text) : text);
}

bool isBlocked(const json::object& effect) {
  return textOf(effect, "status") == model::statusName(model::Status::kBlocked);
}

// Prints the result; returns the tool's own status, as `cloister run` does.
int tell(const Invocation& invocation, const json::object& effect) {
  if (isBlocked(effect)) writeTo(STDERR_FILENO, blockedText(effect, false, "tool show"));
  if (invocation.globals.json) {
    printJson(effect);
  } else {
    const json::object& output = objectOf(effect, "output");
    writeOutput(STDOUT_FILENO, output, "stdout");
    writeOutput(STDERR_FILENO, output, "stderr");
    const json::object& error = objectOf(effect, "error");
    if (!error.empty() && !isBlocked(effect)) {
      writeTo(STDERR_FILENO, "cloister: " + printable(textOf(error, "type")) + ": " +
                                 printable(textOf(error, "message")) + "\n");
    }
  }
  const json::value* code = effect.if_contains("exit_code");
  return code != nullptr && code->is_number() ? static_cast<int>(integerOf(effect, "exit_code"))
                                              : kStatusService;
}

Result<std::string> operandOf(const base::Flags& flags, std::string_view what) {
  if (!flags.operands().empty()) return flags.operands()[0];
  return fail(Code::kInvalid, "which: give the " + std::string(what));
}

// Waits for a call that waits for an approval; a signal meanwhile cancels the call, like a run.
Result<int> waitApproval(const Invocation& invocation, const json::object& effect) {
  writeTo(STDERR_FILENO, blockedText(effect, true));
  const std::string id = textOf(effect, "id");
  const supervisor::Signals signals =
      TRY(supervisor::Signals::block({SIGINT, SIGTERM, SIGHUP, SIGPIPE}));
  Job job{.endpoint = TRY(needServer(invocation.globals)),
          .signals = signals,
          .submission = {},
          .output = {.print = false, .progress = !invocation.globals.json, .say_blocked = false}};
  const Outcome ended = TRY(follow(job, job.client, id));
  if (const int* own = std::get_if<int>(&ended)) return *own;
  return tell(invocation, TRY(call(job.client, "GET", "/v1/tool-calls/" + net::percentEncode(id))));
}

Result<int> callTool(const Invocation& invocation) {
  const base::Flags& flags = invocation.flags;
  json::object body{{"tool_id", TRY(operandOf(flags, "tool's id"))},
                    {"arguments", TRY(argumentsOf(flags))}};
  if (const auto session = flags.text("session")) body["session_id"] = *session;
  if (const auto sandbox = flags.text("sandbox")) body["sandbox"] = *sandbox;
  if (const auto parent = flags.text("parent")) body["parent_id"] = *parent;
  if (const auto approval = flags.text("approval")) body["approval"] = *approval;
  net::BlockingClient client = TRY(connect(invocation.globals));
  const std::string text = base::toJson(body);
  const net::HttpResponse answer =
      TRY(client.exchange({.method = "POST", .target = "/v1/tool-calls", .body = text}, kPatience));
  if (answer.head.status >= 300) return std::unexpected(refusal(answer.head, answer.body));
  const json::object effect = TRY(parseObject(answer.body));
  if (isBlocked(effect) && flags.has("wait-approval")) return waitApproval(invocation, effect);
  return tell(invocation, effect);
}

Result<int> show(const Invocation& invocation) {
  net::BlockingClient client = TRY(connect(invocation.globals));
  const std::string id = net::percentEncode(TRY(operandOf(invocation.flags, "call's id")));
  return tell(invocation, TRY(call(client, "GET", "/v1/tool-calls/" + id)));
}

constexpr Flag kCallFlags[] = {
    {.name = "arg", .value = "NAME=VALUE", .help = "an argument that is text", .many = true},
    {.name = "arguments", .value = "JSON", .help = "an object of arguments"},
    {.name = "session", .value = "ID", .help = "with the files of this session"},
    {.name = "sandbox", .value = "WHICH", .help = "fresh (the default), or the session's: session"},
    {.name = "parent", .value = "ID", .help = "the execution of that session that calls"},
    {.name = "approval", .value = "ID", .help = "the escalation that was approved for this call"},
    {.name = "wait-approval", .value = "", .help = "stay while the call waits for an approval"}};

}  // namespace

const Command kToolList = {.name = "tool list",
                           .summary = "list the tools that can be called",
                           .examples = "cloister tool list\ncloister tool list --json",
                           .run = carryOut<kList>};
const Command kToolCall = {
    .name = "tool call",
    .operands = "TOOL",
    .max_operands = 1,
    .summary = "call a tool in a sandbox",
    .details =
        "Its output comes here, and its exit status becomes this command's: 124 the time was\n"
        "over, 137 killed by the memory limit, 125 the service refused or failed, or\n"
        "the call waits for an approval: --wait-approval stays until that is decided.\n"
        "See docs/TOOLS.md.",
    .flags = kCallFlags,
    .examples =
        "cloister tool call shell.execute --arg command='ls -l'\n"
        "cloister tool call python.execute --arguments '{\"code\":\"print(1)\",\"args\":[\"a\"]}'\n"
        "cloister tool call text.search --arg pattern=needle --session ses_01...",
    .run = callTool,
    .failure_status = kStatusService};
const Command kToolShow = {.name = "tool show",
                           .operands = "ID",
                           .max_operands = 1,
                           .summary = "show what became of a call",
                           .examples = "cloister tool show exec_01... --json",
                           .run = show};

}  // namespace cloister::cli

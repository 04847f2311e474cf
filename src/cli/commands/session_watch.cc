// SPDX-License-Identifier: Apache-2.0
// `cloister session watch`: live changes in a session's workspace.
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands/copy_place.h"
#include "cli/commands/resources.h"
#include "cli/event_stream.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

Result<std::string> targetOf(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  if (operands.empty()) {
    return fail(Code::kInvalid, std::string(kWhichSession));
  }
  const std::string path = TRY(workspacePath(operands.size() > 1 ? operands[1] : ""));
  return "/v1/sessions/" + net::percentEncode(operands[0]) +
         "/files:watch?path=" + net::percentEncode(path) +
         (invocation.flags.has("recursive") ? "&recursive=true" : "");
}

std::string pathOf(const json::object& data, std::string_view member) {
  const std::string path = textOf(data, member);
  return path.empty() ? "." : path;
}

std::string lineOf(const net::SseEvent& event, const json::object& data) {
  if (event.type == "end") return "end: " + textOf(data, "reason");
  const std::string from = event.type == "moved" ? pathOf(data, "from") + " -> " : "";
  return event.type + " " + from + pathOf(data, "path");
}

Result<bool> tell(const net::SseEvent& event, bool json) {
  json::object data = TRY(parseObject(event.data));
  const std::string text =
      json ? streamed(json::object{{"event", event.type}, {"data", std::move(data)}})
           : printable(lineOf(event, data)) + "\n";
  if (writeTo(STDOUT_FILENO, text)) return event.type == "end";
  return fail(Code::kUnavailable, "writing the changes: nobody reads them");
}

Result<int> watch(const Invocation& invocation) {
  const std::string target = TRY(targetOf(invocation));
  return readStream(invocation.globals, target, [&](const net::SseEvent& event) {
    return tell(event, invocation.globals.json);
  });
}

constexpr Flag kFlags[] = {
    {.name = "recursive", .value = "", .help = "the directories beneath it too", .letter = 'r'},
};

}  // namespace

const Command kSessionWatch = {
    .name = "session watch",
    .operands = "ID [PATH]",
    .max_operands = 2,
    .summary = "print what changes in a directory of a session",
    .details =
        "One line for each: created, modified, moved, removed. `overflow`: some were missed;\n"
        "`limit`: what is beneath that directory is not watched. `ready` comes first.",
    .flags = kFlags,
    .examples =
        "cloister session watch ID --recursive\n"
        "cloister session watch ID project/src --json",
    .run = watch};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
// `cloister agent … --dry-run`: what a change would have done to the agent's stored requests.
#include <unistd.h>

#include "cli/commands/sandbox.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

std::string decisionOf(const json::object& decision) {
  const std::string rule = textOf(decision, "rule");
  std::string text = printable(textOf(decision, "decision"));
  if (textOf(decision, "by") == "safe_operations") text += " as safe";
  return rule.empty() ? text : text + " (" + printable(rule) + ")";
}

std::string groupText(const json::object& group) {
  std::string examples;
  for (const json::value& each : arrayOf(group, "examples")) {
    if (each.is_string()) examples += " " + printable(each.get_string());
  }
  return "  " + textOf(group, "count") + "  " + decisionOf(objectOf(group, "from")) + " -> " +
         decisionOf(objectOf(group, "to")) + ":" + examples + "\n";
}

std::string lostText(const json::object& answer) {
  std::string text;
  for (const auto& [why, count] : objectOf(answer, "not_replayable_why")) {
    text += (text.empty() ? "" : ", ") + printable(why) + ": " + json::serialize(count);
  }
  return textOf(answer, "not_replayable") + " more can no longer be decided (" + text + ")\n";
}

std::string dryRunText(const json::object& answer) {
  std::string text = "Nothing was changed. Of the last " + textOf(answer, "replayed") +
                     " requests " + textOf(answer, "changed") + " would be decided otherwise.\n";
  for (const json::value& each : arrayOf(answer, "groups")) {
    if (each.is_object() && boolOf(each.get_object(), "decision_changes")) {
      text += groupText(each.get_object());
    }
  }
  return integerOf(answer, "not_replayable") > 0 ? text + lostText(answer) : text;
}

}  // namespace

Result<int> tryChange(const Invocation& invocation, const json::object& body) {
  const std::string agent = TRY(agentFlag(invocation));
  net::BlockingClient client = TRY(connect(invocation.globals));
  const json::object answer =
      TRY(call(client, "POST", sandboxPath(invocation, agent, ":dry-run"), body));
  if (invocation.globals.json) {
    printJson(answer);
  } else {
    writeTo(STDOUT_FILENO, dryRunText(answer));
  }
  return 0;
}

}  // namespace cloister::cli

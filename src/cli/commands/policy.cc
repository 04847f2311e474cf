// SPDX-License-Identifier: Apache-2.0
// `cloister policy …`: policy's decisions, before anything runs.
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "cli/commands/resources.h"
#include "cli/render/outline.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr int kNotAllowed = 1;
constexpr size_t kMaxWords = 4096;

std::string verdictText(const json::object& verdict) {
  std::string text =
      printable(textOf(verdict, "outcome")) + ": " + printable(textOf(verdict, "reason")) + "\n";
  if (const std::string rule = textOf(verdict, "rule"); !rule.empty()) {
    text += "  rule: " + printable(rule) + " (" + printable(textOf(verdict, "why")) + ")\n";
  }
  for (const json::value& item : arrayOf(verdict, "risk_factors")) {
    if (!item.is_object()) continue;
    const json::object& risk = item.get_object();
    text += "  " + printable(textOf(risk, "kind")) + " at " + textOf(risk, "begin") + "-" +
            textOf(risk, "end") + ", " + printable(textOf(risk, "outcome")) + ": " +
            printable(textOf(risk, "what")) + "\n    \"" + printable(textOf(risk, "words")) +
            "\"\n";
  }
  for (const json::value& item : arrayOf(verdict, "mitigations")) {
    if (item.is_string()) text += "  instead: " + printable(item.get_string()) + "\n";
  }
  return text;
}

// A single word is text for the shell; several words are a program and its arguments.
Result<json::object> commandBody(const base::Flags& flags) {
  std::vector<std::string> words = flags.operands();
  std::ranges::copy(flags.rest(), std::back_inserter(words));
  if (words.empty()) return fail(Code::kInvalid, "which command: give it behind --");
  json::object body;
  if (words.size() == 1) {
    body["command"] = words[0];
  } else {
    json::array argv;
    for (const std::string& word : words)
      argv.push_back(json::string(word));
    body["argv"] = std::move(argv);
  }
  if (const auto level = flags.text("level")) body["level"] = *level;
  return body;
}

int statusOf(const json::object& verdict) {
  return textOf(verdict, "outcome") == "allow" ? 0 : kNotAllowed;
}

constexpr Verb kExplain = {.method = "POST",
                           .path = "/v1/commands:explain",
                           .body = commandBody,
                           .text = verdictText,
                           .status = statusOf};
constexpr Flag kFlags[] = {
    {.name = "level", .value = "NAME", .help = "the level to judge by (default: standard)"},
};

}  // namespace

const Command kPolicyExplainCommand = {
    .name = "policy explain-command",
    .operands = "-- CMD...",
    .max_operands = kMaxWords,
    .summary = "say what the command filter thinks of a command",
    .details =
        "One word is text for bash; more are a program and its arguments. Nothing is run "
        "or recorded: see docs/COMMAND_FILTER.md. The exit status is 0 when it is allowed and 1 "
        "when it is escalated or denied.",
    .flags = kFlags,
    .examples = "cloister policy explain-command --level restricted -- 'git status; sudo ls'",
    .run = carryOut<kExplain>};

}  // namespace cloister::cli

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/doc_dir.h"
#include "cli/command.h"

namespace cloister::cli {
namespace {

using base::Flag;

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size() + 2, width), ' ');
  return text;
}

std::string flagLines(std::span<const Flag> flags) {
  constexpr size_t kColumn = 28;
  std::string out;
  for (const Flag& flag : flags) {
    if (flag.help.empty()) continue;
    std::string left = flag.letter != 0 ? std::string("  -") + flag.letter + ", " : "      ";
    left.append("--").append(flag.name);
    if (!flag.value.empty()) left.append(" ").append(flag.value);
    out.append(padded(left, kColumn)).append(flag.help);
    out.append(flag.many ? " (may be repeated)\n" : "\n");
  }
  return out;
}

std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.append("  ").append(text.substr(0, end)).append("\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool namesDocs(const Command& command) {
  static constexpr std::string_view kDocs = "docs/";
  return command.details.contains(kDocs) ||
         std::ranges::any_of(command.flags,
                             [](const Flag& flag) { return flag.help.contains(kDocs); });
}

bool isOf(const Command& command, std::string_view group) {
  return command.name.starts_with(group) && command.name.substr(group.size()).starts_with(' ');
}

std::string whereDocsAre() {
  return "\nDocumentation:\n  docs/ is in " + base::docDir() + "\n";
}

}  // namespace

std::string helpFor(const Command& command) {
  std::string out("cloister ");
  out.append(command.name).append(": ").append(command.summary).append("\n\nUsage:\n  cloister ");
  out.append(command.name).append(" [flags] ").append(command.operands).append("\n");
  if (!command.details.empty()) out.append("\n").append(command.details).append("\n");
  for (const auto& [alias, group] : groupAliases()) {
    if (!isOf(command, group)) continue;
    out.append("\n`cloister ").append(alias).append(command.name.substr(group.size()));
    out.append("` is the same command.\n");
  }
  if (!command.flags.empty()) out.append("\nFlags:\n").append(flagLines(command.flags));
  out.append("\nFlags of every command:\n").append(flagLines(globalFlags()));
  if (!command.examples.empty()) out.append("\nExamples:\n").append(indented(command.examples));
  if (namesDocs(command)) out.append(whereDocsAre());
  return out;
}

std::string generalHelp() {
  constexpr size_t kColumn = 24;
  std::string out =
      "cloister: run untrusted code in a sandbox, and keep a provable record of it\n\nCommands:\n";
  for (const Command* command : commands()) {
    out.append(padded("  " + std::string(command->name), kColumn)).append(command->summary);
    out.append("\n");
  }
  out.append("\nAliases:\n");
  for (const auto& [alias, group] : groupAliases()) {
    out.append(padded("  " + std::string(alias), kColumn));
    out.append("the same as `").append(group).append("`\n");
  }
  out.append("\nFlags of every command:\n").append(flagLines(globalFlags()));
  out.append(
      "\nExamples:\n"
      "  cloister run -c 'print(6 * 7)'\n"
      "  printf 'hi\\n' | cloister run script.py -- argument\n"
      "  cloister serve\n"
      "  cloister doctor\n"
      "\n`cloister COMMAND --help` explains one.\n");
  out.append(whereDocsAre());
  return out;
}

}  // namespace cloister::cli

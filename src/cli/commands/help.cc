// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/doc_dir.h"
#include "cli/command.h"
#include "cli/render/screen.h"

namespace cloister::cli {
namespace {

using base::Flag;

constexpr size_t kFlagColumn = 28;
constexpr size_t kNameColumn = 24;

// `left`, and `text` in lines that fit the screen, all beginning at `column`.
std::string hanging(std::string left, std::string_view text, size_t column) {
  constexpr size_t kLeast = 20;
  const size_t width = std::max(columnsHere(), column + kLeast);
  std::string line = std::move(left);
  line.resize(std::max(column == 0 ? 0 : line.size() + 2, column), ' ');
  std::string out;
  size_t begin = line.size();  // of the text in the line
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (line.size() > begin && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.assign(column, ' ');
      begin = column;
    }
    line.append(line.size() > begin ? " " : "").append(word);
  }
  return out + line + "\n";
}

// Paragraphs, which an empty line separates.
std::string reflowed(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n\n"), text.size());
    std::string paragraph(text.substr(0, end));
    std::ranges::replace(paragraph, '\n', ' ');
    out.append(out.empty() ? "" : "\n").append(hanging("", paragraph, 0));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

std::string flagLines(std::span<const Flag> flags) {
  std::string out;
  for (const Flag& flag : flags) {
    if (flag.help.empty()) continue;
    std::string left = flag.letter != 0 ? std::string("  -") + flag.letter + ", " : "      ";
    left.append("--").append(flag.name);
    if (!flag.value.empty()) left.append(" ").append(flag.value);
    const std::string help = std::string(flag.help) + (flag.many ? " (may be repeated)" : "");
    out += hanging(left, help, kFlagColumn);
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

// "show" of "session show": nothing of a group within the group.
std::string_view verbIn(std::string_view name, std::string_view group) {
  if (!name.starts_with(std::string(group) + " ")) return {};
  const std::string_view rest = name.substr(group.size() + 1);
  return rest.contains(' ') ? std::string_view() : rest;
}

std::string line(std::string_view name, std::string_view summary) {
  return hanging("  " + std::string(name), summary, kNameColumn);
}

std::string aliasLines(std::string_view group) {
  std::string out;
  for (const auto& [alias, own] : groupAliases()) {
    if (own == group) out += "\n`cloister " + std::string(alias) + "` is the same group.\n";
  }
  return out;
}

}  // namespace

std::string helpFor(const Command& command) {
  std::string out("cloister ");
  out.append(command.name).append(": ").append(command.summary).append("\n\nUsage:\n  cloister ");
  out.append(command.name).append(" [flags] ").append(command.operands).append("\n");
  if (!command.details.empty()) out.append("\n").append(reflowed(command.details));
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

std::string groupHelp(const Group& group) {
  const std::string name(group.name);
  std::string out = "cloister " + name + ": " + std::string(group.summary) +
                    "\n\nUsage:\n  cloister " + name + " COMMAND [flags] [operands]\n" +
                    aliasLines(group.name) + "\nCommands:\n";
  for (const Command* command : commands()) {
    if (const auto verb = verbIn(command->name, group.name); !verb.empty())
      out += line(verb, command->summary);
  }
  std::string inner;
  for (const Group& each : groups()) {
    if (const auto verb = verbIn(each.name, group.name); !verb.empty())
      inner += line(verb, each.summary);
  }
  if (!inner.empty()) out += "\nGroups:\n" + inner;
  return out + "\n`cloister " + name + " COMMAND --help` explains one.\n";
}

std::string generalHelp() {
  std::string out =
      "cloister: run untrusted code in a sandbox, and keep a provable record of it\n\nCommands:\n";
  for (const Command* command : commands()) {
    if (!command->name.contains(' ')) out += line(command->name, command->summary);
  }
  out += "\nGroups:\n";
  for (const Group& group : groups()) {
    if (!group.name.contains(' ')) out += line(group.name, group.summary);
  }
  out += "\nAliases:\n";
  for (const auto& [alias, group] : groupAliases())
    out += line(alias, "the same as `" + std::string(group) + "`");
  out.append("\nFlags of every command:\n").append(flagLines(globalFlags()));
  out.append(
      "\nExamples:\n"
      "  cloister run -c 'print(6 * 7)'\n"
      "  printf 'hi\\n' | cloister run script.py -- argument\n"
      "  cloister serve\n"
      "  cloister doctor\n"
      "\n`cloister COMMAND --help` explains a command, and `cloister GROUP --help` lists\n"
      "a group. The exit status is 0, 1 when the answer is no, 2 for a wrong command\n"
      "line, 3 when it was refused, 4 when it was not found, and 125 when the service\n"
      "failed or cannot be reached. `run`, `exec`, `shell` and `tool call` exit as\n"
      "their program did: see their help.\n");
  out.append(whereDocsAre());
  return out;
}

}  // namespace cloister::cli

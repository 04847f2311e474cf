// SPDX-License-Identifier: Apache-2.0
// Shell completion, generated from the table of commands.
#include <unistd.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

struct Words {
  std::string first;                                       // what may come first
  std::vector<std::pair<std::string, std::string>> after;  // "key" → "create list revoke"
};

Words groups() {
  Words words;
  for (const Command* command : commands()) {
    const std::string name(command->name);
    const size_t space = name.find(' ');
    const std::string head = name.substr(0, space);
    auto known = std::ranges::find(words.after, head, &std::pair<std::string, std::string>::first);
    if (known == words.after.end()) {
      words.first.append(words.first.empty() ? "" : " ").append(head);
      words.after.emplace_back(head, "");
      known = words.after.end() - 1;
    }
    if (space == std::string::npos) continue;
    known->second.append(known->second.empty() ? "" : " ").append(name.substr(space + 1));
  }
  return words;
}

std::string flagWords(std::span<const Flag> flags) {
  std::string words;
  for (const Flag& flag : flags) {
    if (!flag.help.empty()) words.append(words.empty() ? "--" : " --").append(flag.name);
  }
  return words;
}

std::string bash() {
  const Words words = groups();
  std::string script =
      "# cloister: completion for bash. Load it with: source <(cloister completion bash)\n"
      "_cloister() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} words=() word name\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    [[ $word == -* ]] || words+=(\"$word\")\n"
      "  done\n"
      "  name=\"${words[*]:0:2}\"\n"
      "  local flags=\"" +
      flagWords(globalFlags()) +
      "\"\n"
      "  case \"$name\" in\n";
  for (const Command* command : commands()) {
    const std::string own = flagWords(command->flags);
    if (own.empty()) continue;
    const std::string name(command->name);
    const bool two = name.find(' ') != std::string::npos;
    script.append("    \"" + name + "\"" + (two ? "" : "|\"" + name + " \"*"));
    script.append(") flags+=\" " + own + "\" ;;\n");
  }
  script.append("  esac\n  local candidates=\"\"\n  case \"$name\" in\n");
  script.append("    \"\") candidates=\"" + words.first + "\" ;;\n");
  for (const auto& [head, tails] : words.after) {
    if (!tails.empty()) script.append("    " + head + ") candidates=\"" + tails + "\" ;;\n");
  }
  return script +
         "  esac\n"
         "  if [[ $current == -* ]]; then candidates=$flags; fi\n"
         "  COMPREPLY=($(compgen -W \"$candidates\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _cloister cloister\n";
}

std::string zsh() {
  return "#compdef cloister\n"
         "# cloister: completion for zsh. Put it into a directory of $fpath as _cloister.\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash();
}

// One quoted word for fish.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

void addFishFlags(std::span<const Flag> flags, const std::string& condition, std::string& script) {
  for (const Flag& flag : flags) {
    if (flag.help.empty()) continue;
    script.append("complete -c cloister" + condition + " -l " + std::string(flag.name));
    if (flag.letter != 0) script.append(std::string(" -s ") + flag.letter);
    if (!flag.value.empty()) script.append(" -r");
    script.append(" -d " + quoted(flag.help) + "\n");
  }
}

std::string fish() {
  std::string script =
      "# cloister: completion for fish. Put it into ~/.config/fish/completions/cloister.fish.\n";
  std::vector<std::string> seen;
  for (const Command* command : commands()) {
    const std::string name(command->name);
    const size_t space = name.find(' ');
    const std::string head = name.substr(0, space);
    std::string condition = " -n '__fish_seen_subcommand_from " + head + "'";
    if (std::ranges::find(seen, head) == seen.end()) {
      seen.push_back(head);
      script.append("complete -c cloister -n __fish_use_subcommand -f -a " + head + " -d ");
      script.append(quoted(space == std::string::npos ? command->summary : "see its commands"));
      script.append("\n");
    }
    if (space != std::string::npos) {
      script.append("complete -c cloister" + condition + " -f -a " + name.substr(space + 1));
      script.append(" -d " + quoted(command->summary) + "\n");
    }
    addFishFlags(command->flags, condition, script);
  }
  addFishFlags(globalFlags(), "", script);
  return script;
}

Result<int> completion(const Invocation& invocation) {
  const auto& operands = invocation.flags.operands();
  writeTo(STDOUT_FILENO, TRY(completionScript(operands.empty() ? "" : operands[0])));
  return 0;
}

}  // namespace

Result<std::string> completionScript(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return fail(Code::kInvalid, "which shell: bash, zsh or fish");
}

const Command kCompletion = {.name = "completion",
                             .operands = "bash | zsh | fish",
                             .max_operands = 1,
                             .summary = "print a shell's completion script",
                             .examples = "source <(cloister completion bash)",
                             .run = completion};

}  // namespace cloister::cli

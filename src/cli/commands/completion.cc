// SPDX-License-Identifier: Apache-2.0
// Shell completion, generated from the table of commands.
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cli/command.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;

// Possible next words after words: ("", "run session …"), ("session", "create list …").
using Words = std::vector<std::pair<std::string, std::string>>;

// False for a known word.
bool add(Words& words, const std::string& behind, const std::string& word) {
  auto known = std::ranges::find(words, behind, &Words::value_type::first);
  if (known == words.end()) known = words.insert(words.end(), {behind, ""});
  std::string& all = known->second;
  if ((" " + all + " ").contains(" " + word + " ")) return false;
  all.append(all.empty() ? "" : " ").append(word);
  return true;
}

// "session memory list" → ("", "session"), ("session", "memory"), ("session memory", "list").
Words stepsOf(const Command& command) {
  const std::string name(command.name);
  Words steps;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find(' ', at), name.size());
    steps.emplace_back(name.substr(0, at == 0 ? 0 : at - 1), name.substr(at, end - at));
    at = end + 1;
  }
  return steps;
}

Words allWords() {
  Words words;
  for (const Command* command : commands()) {
    for (const auto& [behind, word] : stepsOf(*command))
      add(words, behind, word);
  }
  for (const auto& [alias, group] : groupAliases())
    add(words, "", std::string(alias));
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
  const Words words = allWords();
  std::string script =
      "# cloister: completion for bash. Load it with: source <(cloister completion bash)\n"
      "_cloister() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} words=() word name\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    [[ $word == -* ]] || words+=(\"$word\")\n"
      "  done\n";
  for (const auto& [alias, group] : groupAliases()) {
    script.append("  if [[ ${words[0]} == " + std::string(alias) + " ]]; then words[0]=");
    script.append(std::string(group) + "; fi\n");
  }
  script.append("  name=\"${words[*]:0:2}\"\n");
  for (const auto& [behind, word] : words) {
    if (!behind.contains(' ')) continue;
    script.append("  if [[ $name == \"" + behind + "\" ]]; then name=\"${words[*]:0:3}\"; fi\n");
  }
  script.append("  local flags=\"" + flagWords(globalFlags()) + "\"\n  case \"$name\" in\n");
  for (const Command* command : commands()) {
    const std::string own = flagWords(command->flags);
    if (own.empty()) continue;
    const std::string name(command->name);
    const bool many = name.contains(' ');
    script.append("    \"" + name + "\"" + (many ? "" : "|\"" + name + " \"*"));
    script.append(") flags+=\" " + own + "\" ;;\n");
  }
  script.append("  esac\n  local candidates=\"\"\n  case \"$name\" in\n");
  for (const auto& [behind, all] : words)
    script.append("    \"" + behind + "\") candidates=\"" + all + "\" ;;\n");
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

// A quoted word for fish.
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

// True behind these words: "session memory".
std::string fishCondition(const std::string& behind) {
  if (behind.empty()) return " -n __fish_use_subcommand";
  std::string condition;
  std::istringstream words(behind);
  for (std::string word; words >> word;) {
    condition.append(condition.empty() ? "" : "; and ")
        .append("__fish_seen_subcommand_from ")
        .append(word);
    for (const auto& [alias, group] : groupAliases()) {
      if (word == group) condition.append(" ").append(alias);
    }
  }
  return " -n '" + condition + "'";
}

std::string fish() {
  std::string script =
      "# cloister: completion for fish. Put it into ~/.config/fish/completions/cloister.fish.\n";
  Words seen;
  for (const Command* command : commands()) {
    const Words steps = stepsOf(*command);
    for (const auto& [behind, word] : steps) {
      if (!add(seen, behind, word)) continue;
      const bool whole = behind == steps.back().first;
      script.append("complete -c cloister" + fishCondition(behind) + " -f -a " + word + " -d ");
      script.append(quoted(whole ? command->summary : "see its commands") + "\n");
    }
    // A group has the flags of all its commands; a command alone is its own group.
    const std::string& group = steps.back().first;
    addFishFlags(command->flags, fishCondition(group.empty() ? steps.back().second : group),
                 script);
  }
  for (const auto& [alias, group] : groupAliases()) {
    script.append("complete -c cloister" + fishCondition("") + " -f -a " + std::string(alias));
    script.append(" -d " + quoted(std::string_view("the same as " + std::string(group))) + "\n");
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

// SPDX-License-Identifier: Apache-2.0
#include "cli/completions.h"

#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/render/terminal.h"
#include "cli/words.h"
#include "model/language.h"

namespace cloister::cli {
namespace {

using base::Flag;

// A list of the server, and the members of an item that name it.
struct Listing {
  std::string_view objects;
  std::string_view path;
  std::string_view items;
  std::vector<std::string_view> members;
};
const Listing kListings[] = {
    {"session", "/v1/sessions?limit=100&status=running", "sessions", {"name", "id"}},
    {"execution", "/v1/executions?limit=50", "executions", {"id"}},
    {"artifact", "/v1/artifacts?limit=100", "artifacts", {"id"}},
    {"snapshot", "/v1/snapshots?limit=100", "snapshots", {"id"}},
    {"escalation", "/v1/escalations?limit=100", "escalations", {"id"}},
    {"key", "/v1/keys", "keys", {"id"}},
    {"sign-in", "/v1/sign-ins", "sign_ins", {"id"}},
    {"secret", "/v1/secrets", "secrets", {"name"}},
    {"image", "/v1/images", "images", {"name"}},
    {"agent", "/v1/agents?limit=100", "agents", {"agent"}},
    {"tool", "/v1/capabilities", "tools", {"id"}},
    {"mcp-server", "/v1/mcp-servers", "mcp_servers", {"name"}},
    {"layer", "/v1/deps", "layers", {"digest"}},
    {"policy", "/v1/policies?limit=50", "policies", {"version"}},
};

// The first operand of a command, by its name or its group; the first entry that fits counts.
struct Operand {
  std::string_view command;
  std::string_view objects;
};
constexpr Operand kOperands[] = {
    {"exec", "session"},
    {"shell", "session"},
    {"port", "session"},
    {"session", "session"},
    {"execution", "execution"},
    {"audit receipt", "execution"},
    {"artifact get", "artifact"},
    {"artifact url", "artifact"},
    {"artifact rm", "artifact"},
    {"snapshot", "snapshot"},
    {"escalation", "escalation"},
    {"key", "key"},
    {"sign-in", "sign-in"},
    {"secret", "secret"},
    {"image", "image"},
    {"tool show", "execution"},
    {"tool", "tool"},
    {"mcp-server rm", "mcp-server"},
    {"deps", "layer"},
    {"policy show", "policy"},
    {"policy rollback", "policy"},
    {"policy export", "policy"},
};

// Flags whose values are objects.
constexpr Operand kFlagValues[] = {
    {"agent", "agent"},         {"session", "session"},     {"from-snapshot", "snapshot"},
    {"image", "image"},         {"approval", "escalation"}, {"request", "escalation"},
    {"execution", "execution"},
};

// Values that are suggested, and that the server may have more of.
struct Values {
  std::string_view flag;
  std::string_view values;
};
constexpr Values kValues[] = {
    {"runtime", "process gvisor microvm"},
    {"level", "unrestricted standard restricted isolated training"},
    {"role", "viewer agent operator approver tenant-admin admin metrics"},
};

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> all;
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(word.size() + 1, words.size()));
    all.emplace_back(word);
  }
  return all;
}

std::vector<Flag> flagsOf(const Command* command) {
  std::vector<Flag> flags;
  if (command != nullptr) flags.assign(command->flags.begin(), command->flags.end());
  flags.insert(flags.end(), globalFlags().begin(), globalFlags().end());
  return flags;
}

const Flag* flagNamed(const std::vector<Flag>& flags, std::string_view word) {
  const auto found = std::ranges::find_if(flags, [&](const Flag& flag) {
    const bool letter = flag.letter != 0 && word.size() == 2 && word[0] == '-';
    return word == "--" + std::string(flag.name) || (letter && word[1] == flag.letter);
  });
  return found == flags.end() ? nullptr : &*found;
}

std::string_view objectsFor(std::span<const Operand> table, std::string_view name) {
  const auto found = std::ranges::find_if(table, [&](const Operand& each) {
    return name == each.command || name.starts_with(std::string(each.command) + " ");
  });
  return found == table.end() ? std::string_view() : found->objects;
}

// The languages of this installation.
std::vector<std::string> languages() {
  std::vector<std::string> names;
  const auto known = model::LanguageSet::load(base::shareDir() + "/languages");
  if (!known) return names;
  for (const model::Language& language : known->all())
    names.push_back(language.name);
  return names;
}

Completion valuesOf(const Flag& flag) {
  if (flag.name == "language") return {languages()};
  if (!flag.choices.empty()) return {split(flag.choices)};
  const auto* found = std::ranges::find(kValues, flag.name, &Values::flag);
  if (found != std::end(kValues)) return {split(found->values)};
  return {{}, std::string(objectsFor(kFlagValues, flag.name))};
}

// Names of commands and groups behind `group`; "" is the beginning.
std::vector<std::string> wordsBehind(const std::string& group) {
  const std::string before = group.empty() ? "" : group + " ";
  std::vector<std::string> words;
  const auto add = [&](std::string_view name) {
    if (!name.starts_with(before)) return;
    const std::string_view rest = name.substr(before.size());
    std::string word(rest.substr(0, rest.find(' ')));
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  };
  for (const Command* command : commands())
    add(command->name);
  for (const auto& [alias, own] : groupAliases())
    add(alias);
  return words;
}

// `completion` takes the name of a shell, and a group's command its objects.
Completion operandsOf(const Command& command, const base::Flags& flags) {
  if (command.name == kCompletion.name) return {{"bash", "zsh", "fish"}};
  const bool many = command.operands.ends_with("...");
  const bool fits = command.max_operands > 0 && (flags.operands().empty() || many);
  return {{}, std::string(fits ? objectsFor(kOperands, command.name) : "")};
}

bool isObjectId(std::string_view word) {
  return std::ranges::none_of(word, [](char c) { return static_cast<uint8_t>(c) < 0x21; });
}

std::vector<std::string> namesOf(const Globals& globals, std::string_view objects) {
  constexpr Millis kPatience{2'000};
  std::vector<std::string> names;
  const auto* listing = std::ranges::find(kListings, objects, &Listing::objects);
  if (listing == std::end(kListings)) return names;
  const auto endpoint = findServer(globals);
  if (!endpoint || !*endpoint) return names;
  net::BlockingClient client(**endpoint);
  const auto answer =
      client.exchange({.method = "GET", .target = std::string(listing->path)}, kPatience);
  if (!answer || answer->head.status != 200) return names;
  const auto page = parseObject(answer->body);
  if (!page) return names;
  for (const json::value& item : arrayOf(*page, listing->items)) {
    for (const std::string_view member : listing->members) {
      std::string name = item.is_object() ? textOf(item.get_object(), member) : "";
      if (!name.empty() && isObjectId(name)) names.push_back(printable(name));
    }
  }
  return names;
}

}  // namespace

Completion completionOf(std::vector<std::string> words) {
  if (words.empty()) words.emplace_back();
  std::string current = std::move(words.back());
  words.pop_back();
  // bash takes --flag=value apart: "--flag", "=", "value".
  if (current == "=") current.clear();
  if (!words.empty() && words.back() == "=") words.pop_back();
  Split split = splitCommand(words);
  const std::string name = split.name();
  const Command* command = findCommand(name);
  const std::vector<Flag> flags = flagsOf(command);
  if (std::ranges::find(split.arguments, "--") != split.arguments.end()) return {};
  const auto parsed = base::Flags::parse(flags, split.arguments, flagWords());
  const auto withGlobals = [&](Completion completion) {
    if (!parsed) return completion;
    completion.globals.url = parsed->text("url");
    completion.globals.key_file = parsed->text("key-file");
    completion.globals.state = parsed->text("state");
    return completion;
  };
  const Flag* before = words.empty() ? nullptr : flagNamed(flags, words.back());
  if (before != nullptr && !before->value.empty()) return withGlobals(valuesOf(*before));
  if (current.starts_with('-')) {
    Completion all;
    for (const Flag& flag : flags) {
      if (!flag.help.empty()) all.words.push_back("--" + std::string(flag.name));
    }
    return all;
  }
  if (command == nullptr) {
    const bool known = name.empty() || findGroup(name) != nullptr;
    return {known ? wordsBehind(name) : std::vector<std::string>()};
  }
  return parsed ? withGlobals(operandsOf(*command, *parsed)) : Completion{};
}

int printCompletions(const std::vector<std::string>& words) {
  const std::string current = words.empty() || words.back() == "=" ? "" : words.back();
  Completion found = completionOf(words);
  if (!found.objects.empty()) {
    for (std::string& name : namesOf(found.globals, found.objects))
      found.words.push_back(std::move(name));
  }
  std::string lines;
  for (const std::string& word : found.words) {
    if (word.starts_with(current)) lines += word + "\n";
  }
  writeTo(STDOUT_FILENO, lines);
  return 0;
}

}  // namespace cloister::cli

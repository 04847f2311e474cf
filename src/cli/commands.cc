// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/completions.h"
#include "cli/render/screen.h"
#include "cli/render/terminal.h"
#include "cli/render/verdict.h"
#include "cli/words.h"

namespace cloister::cli {
namespace {

using base::Flag;
using base::Flags;

constexpr Flag kGlobalFlags[] = {
    {.name = "json", .value = "", .help = "print JSON: the same as -o json"},
    {.name = "output",
     .value = "FORMAT",
     .help = "json, yaml, or wide: tables with all columns, and nothing cut off",
     .letter = 'o',
     .choices = "json yaml wide"},
    {.name = "quiet",
     .value = "",
     .help = "print only ids or names; of a program, only its own output",
     .letter = 'q'},
    {.name = "url",
     .value = "URL",
     .help = "the server (default: $CLOISTER_URL, else this account's)"},
    {.name = "key-file",
     .value = "FILE",
     .help = "a file with the API key (default: $CLOISTER_API_KEY, else this account's server's)"},
    {.name = "state", .value = "DIR", .help = "the state directory of this account's server"},
    {.name = "help", .value = "", .help = "explain the command", .letter = 'h'},
};

const Command* const kCommands[] = {
    &kRun,
    &kExec,
    &kShell,
    &kCopy,
    &kServe,
    &kMcp,
    &kMcpServerAdd,
    &kMcpServerList,
    &kMcpServerRemove,
    &kSessionCreate,
    &kSessionList,
    &kSessionShow,
    &kSessionRenew,
    &kSessionMove,
    &kSessionEnd,
    &kSessionRm,
    &kSessionEvents,
    &kSessionFiles,
    &kSessionWatch,
    &kSessionKernels,
    &kSessionMemoryList,
    &kSessionMemoryGet,
    &kSessionMemorySet,
    &kSessionMemoryDelete,
    &kPortOpen,
    &kPortLink,
    &kSessionSnapshot,
    &kSessionFork,
    &kSnapshotList,
    &kSnapshotShow,
    &kSnapshotRm,
    &kExecutionList,
    &kExecutionShow,
    &kExecutionLogs,
    &kExecutionWatch,
    &kExecutionCancel,
    &kExecutionSbom,
    &kExecutionRequest,
    &kArtifactList,
    &kArtifactPut,
    &kArtifactGet,
    &kArtifactUrl,
    &kArtifactRm,
    &kArtifactDestroy,
    &kKeyCreate,
    &kKeyList,
    &kKeyShow,
    &kKeyRotate,
    &kKeyRevoke,
    &kSignInList,
    &kSignInEnd,
    &kWhoami,
    &kEscalationRequest,
    &kEscalationPending,
    &kEscalationList,
    &kEscalationShow,
    &kEscalationApprove,
    &kEscalationDeny,
    &kEscalationPolicy,
    &kAuditList,
    &kAuditVerify,
    &kAuditRedact,
    &kAuditExport,
    &kAuditReceipt,
    &kAuditRoots,
    &kAuditProof,
    &kAuditVerifyProof,
    &kAuditVerifyReceipt,
    &kAuditPublicKey,
    &kMcpInstall,
    &kPolicyCheck,
    &kPolicyApply,
    &kPolicyShow,
    &kPolicyHistory,
    &kPolicyRollback,
    &kPolicyDiff,
    &kPolicyTest,
    &kPolicyExport,
    &kPolicyExplain,
    &kPolicyExplainCommand,
    &kEgressExplain,
    &kSandboxCreate,
    &kSandboxUpdate,
    &kSandboxShow,
    &kSandboxDelete,
    &kSandboxAllow,
    &kSandboxForbid,
    &kSandboxFilter,
    &kSandboxGrant,
    &kSandboxRevoke,
    &kSandboxLimit,
    &kSandboxMonitor,
    &kSandboxViolations,
    &kSandboxAudit,
    &kSandboxStats,
    &kSandboxCheck,
    &kSandboxHealthCheck,
    &kDepsList,
    &kDepsShow,
    &kDepsPrune,
    &kToolList,
    &kToolCall,
    &kToolShow,
    &kQuotaShow,
    &kQuotaSet,
    &kQuotaUnset,
    &kSecretSet,
    &kSecretList,
    &kSecretRemove,
    &kImageList,
    &kImageShow,
    &kImageImport,
    &kImagePull,
    &kImageRemove,
    &kImageVerify,
    &kPool,
    &kDoctor,
    &kVersion,
    &kCompletion,
};

// `agent` was named `sandbox` in earlier versions; a long-lived sandbox is a session.
constexpr GroupAlias kGroupAliases[] = {{.alias = "sandbox", .group = "agent"}};

constexpr Group kGroups[] = {
    {"session", "sandboxes that outlive one program"},
    {"session memory", "values that a session keeps"},
    {"port", "servers that run in a session"},
    {"snapshot", "workspaces of sessions, kept"},
    {"execution", "the records of runs, and their output"},
    {"artifact", "stored files"},
    {"deps", "dependency layers, made of the packages that requests name"},
    {"image", "images for sandboxes"},
    {"tool", "tools that run in a sandbox"},
    {"mcp-server", "MCP servers that are hosted in sandboxes"},
    {"secret", "secrets for programs"},
    {"agent", "what an agent may do, and what it did"},
    {"escalation", "requests to exceed policy, and the decisions on them"},
    {"policy", "the policy document, its versions, and what it decides"},
    {"egress", "the network of sandboxes"},
    {"quota", "what tenants and agents may use"},
    {"key", "API keys"},
    {"sign-in", "people who are signed in to the web interface"},
    {"audit", "the audit log, and proofs of it"},
};

// Also true of a group without a row above.
bool isGroup(const std::string& words) {
  return std::ranges::any_of(
      kCommands, [&](const Command* command) { return command->name.starts_with(words + " "); });
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text.append(text.empty() ? "" : " ").append(word);
  return text;
}

std::string groupOf(const std::string& word) {
  const auto* found = std::ranges::find(kGroupAliases, word, &GroupAlias::alias);
  return found == std::end(kGroupAliases) ? word : std::string(found->group);
}

// The first of `words`, separated by spaces, that is a command of the group; "" for none.
std::string firstOf(const std::string& group, std::string_view words) {
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(word.size() + 1, words.size()));
    if (findCommand(group + " " + std::string(word)) != nullptr) return std::string(word);
  }
  return {};
}

// A word behind a group: the name of a command, if the word is another one for it.
std::string verbOf(const std::string& group, const std::string& word) {
  const std::string name = group + " " + word;
  if (findCommand(name) != nullptr || isGroup(name)) return word;
  const std::string verb = firstOf(group, verbsFor(word));
  return verb.empty() ? word : verb;
}

// The commands and groups within a group.
std::vector<std::string> verbsOf(const std::string& group) {
  std::vector<std::string> verbs;
  const auto add = [&](std::string_view name) {
    if (name.starts_with(group + " ")) verbs.emplace_back(name.substr(group.size() + 1));
  };
  for (const Command* command : kCommands)
    add(command->name);
  for (const Group& each : kGroups)
    add(each.name);
  return verbs;
}

std::vector<std::string> firstWords() {
  std::vector<std::string> words;
  for (const Command* command : kCommands) {
    if (!command->name.contains(' ')) words.emplace_back(command->name);
  }
  for (const Group& group : kGroups)
    words.emplace_back(group.name);
  for (const GroupAlias& each : kGroupAliases)
    words.emplace_back(each.alias);
  return words;
}

std::string unknownCommand(const Split& split) {
  const std::string name = split.name();
  const std::string text = "no command `" + printable(name) + "`";
  std::string group = joined({split.words.begin(), split.words.end() - 1});
  if (!isGroup(group)) {
    std::string meant(commandFor(name));
    if (meant.empty()) meant = base::nearestName(name, firstWords());
    return text +
           (meant.empty() ? "; see `cloister --help`" : "; did you mean `cloister " + meant + "`?");
  }
  const std::vector<std::string> verbs = verbsOf(group);
  const std::string verb = base::nearestName(split.words.back(), verbs);
  if (!verb.empty()) return text + "; did you mean `cloister " + group + " " + verb + "`?";
  return text + "; `" + group + "` has: " + joined(verbs);
}

void complain(const std::string& message) {
  const bool colour = mayColour(STDERR_FILENO);
  writeTo(STDERR_FILENO, (colour ? "\x1b[31mcloister:\x1b[0m " : "cloister: ") + message + "\n");
}

Result<Globals> globalsOf(const Flags& flags) {
  Globals globals{.quiet = flags.has("quiet"),
                  .url = flags.text("url"),
                  .key_file = flags.text("key-file"),
                  .state = flags.text("state")};
  const std::string format = flags.text("output").value_or("json");
  if (flags.has("json") && format != "json") {
    return fail(Code::kInvalid, "--json: not together with -o " + format + "; give one of both");
  }
  globals.json = isStructured(flags);
  setScreen({.yaml = format == "yaml", .wide = format == "wide", .columns = columnsHere(kPiped)});
  return globals;
}

Result<Invocation> parse(const Command& command, const std::vector<std::string>& arguments) {
  std::vector<Flag> known(command.flags.begin(), command.flags.end());
  known.insert(known.end(), std::begin(kGlobalFlags), std::end(kGlobalFlags));
  Invocation invocation;
  invocation.flags = TRY(Flags::parse(known, arguments, flagWords()));
  const Flags& flags = invocation.flags;
  if (flags.operands().size() > command.max_operands && !flags.has("help")) {
    return fail(Code::kInvalid, "what is \"" + printable(flags.operands()[command.max_operands]) +
                                    "\" for? usage: cloister " + std::string(command.name) + " " +
                                    std::string(command.operands));
  }
  invocation.globals = TRY(globalsOf(flags));
  return invocation;
}

int runOne(const Command& command, const std::vector<std::string>& arguments) {
  const auto statusOf = [&](const Error& error) {
    return command.failure_status != 0 ? command.failure_status : errorStatus(error);
  };
  const auto invocation = parse(command, arguments);
  if (!invocation) {
    complain(invocation.error().message + "\nsee `cloister " + std::string(command.name) +
             " --help`");
    return statusOf(invocation.error());
  }
  if (invocation->flags.has("help")) {
    writeTo(STDOUT_FILENO, helpFor(command));
    return 0;
  }
  const Result<int> status = command.run(*invocation);
  if (status) return *status;
  complain(status.error().message);
  return statusOf(status.error());
}

// A group alone, or nothing at all: lists the commands.
int listCommands(const Group* group, bool asked) {
  const std::string text = group == nullptr ? generalHelp() : groupHelp(*group);
  writeTo(asked ? STDOUT_FILENO : STDERR_FILENO, text);
  if (asked) return 0;
  if (group != nullptr) complain("`" + std::string(group->name) + "` needs one of its commands");
  return kStatusUsage;
}

}  // namespace

std::span<const Command* const> commands() {
  return kCommands;
}

std::span<const GroupAlias> groupAliases() {
  return kGroupAliases;
}

std::span<const Flag> globalFlags() {
  return kGlobalFlags;
}

std::span<const Group> groups() {
  return kGroups;
}

const Command* findCommand(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, [](const Command* c) { return c->name; });
  return found == std::end(kCommands) ? nullptr : *found;
}

const Group* findGroup(std::string_view name) {
  const auto* found = std::ranges::find(kGroups, name, &Group::name);
  return found == std::end(kGroups) ? nullptr : found;
}

std::string Split::name() const {
  return joined(words);
}

Split splitCommand(const std::vector<std::string>& arguments) {
  Split split;
  size_t i = 0;
  const auto wanted = [&] { return split.words.empty() || isGroup(split.name()); };
  for (; i < arguments.size() && wanted(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-')) {
      split.words.push_back(split.words.empty() ? groupOf(argument)
                                                : verbOf(split.name(), argument));
      continue;
    }
    split.arguments.push_back(argument);
    const auto flag = std::ranges::find_if(kGlobalFlags, [&](const Flag& known) {
      return argument == "--" + std::string(known.name) ||
             (known.letter != 0 && argument == std::string("-") + known.letter);
    });
    const bool takes_next = flag != std::end(kGlobalFlags) && !flag->value.empty();
    if (takes_next && i + 1 < arguments.size()) split.arguments.push_back(arguments[++i]);
  }
  split.arguments.insert(split.arguments.end(), arguments.begin() + static_cast<ptrdiff_t>(i),
                         arguments.end());
  return split;
}

int runCommandLine(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == kCompleteWord) {
    return printCompletions({arguments.begin() + 1, arguments.end()});
  }
  Split split = splitCommand(arguments);
  if (!split.words.empty() && split.words[0] == "help") {
    split = splitCommand(split.arguments);
    split.arguments = {"--help"};
  }
  const std::string name = split.name();
  const bool help = std::ranges::any_of(
      split.arguments, [](const std::string& a) { return a == "--help" || a == "-h"; });
  if (const Command* command = findCommand(name); command != nullptr) {
    return runOne(*command, split.arguments);
  }
  if (name.empty() && split.arguments == std::vector<std::string>{"--version"}) {
    return runOne(kVersion, {});
  }
  if (name.empty()) return listCommands(nullptr, help);
  if (isGroup(name)) {
    const Group* row = findGroup(name);
    const Group bare{name, "a group of commands"};
    return listCommands(row == nullptr ? &bare : row, help);
  }
  complain(unknownCommand(split));
  return kStatusUsage;
}

}  // namespace cloister::cli

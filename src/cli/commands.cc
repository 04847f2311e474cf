// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

using base::Flag;
using base::Flags;

constexpr Flag kGlobalFlags[] = {
    {.name = "json", .value = "", .help = "print JSON"},
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
    &kImageRemove,
    &kImageVerify,
    &kPool,
    &kDoctor,
    &kVersion,
    &kCompletion,
};

// `agent` was named `sandbox` in earlier versions; a long-lived sandbox is a session.
constexpr GroupAlias kGroupAliases[] = {{.alias = "sandbox", .group = "agent"}};

constexpr int kUsageStatus = 2;

// The command's words, and the remaining arguments.
struct Split {
  std::vector<std::string> words;      // the given words of the command's name
  std::vector<std::string> arguments;  // everything else, in order
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text.append(text.empty() ? "" : " ").append(word);
  return text;
}

bool isGroup(const std::string& word) {
  return std::ranges::any_of(
      kCommands, [&](const Command* command) { return command->name.starts_with(word + " "); });
}

std::string groupOf(const std::string& word) {
  const auto* found = std::ranges::find(kGroupAliases, word, &GroupAlias::alias);
  return found == std::end(kGroupAliases) ? word : std::string(found->group);
}

// Skips global flags and their values before the command.
Split splitCommand(const std::vector<std::string>& arguments) {
  Split split;
  size_t i = 0;
  const auto wanted = [&] { return split.words.empty() || isGroup(joined(split.words)); };
  for (; i < arguments.size() && wanted(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-')) {
      split.words.push_back(split.words.empty() ? groupOf(argument) : argument);
      continue;
    }
    split.arguments.push_back(argument);
    const auto flag = std::ranges::find_if(kGlobalFlags, [&](const Flag& known) {
      return argument == "--" + std::string(known.name);
    });
    const bool takes_next = flag != std::end(kGlobalFlags) && !flag->value.empty();
    if (takes_next && i + 1 < arguments.size()) split.arguments.push_back(arguments[++i]);
  }
  split.arguments.insert(split.arguments.end(), arguments.begin() + static_cast<ptrdiff_t>(i),
                         arguments.end());
  return split;
}

const Command* find(const std::string& name) {
  const auto found = std::ranges::find(kCommands, name, [](const Command* c) { return c->name; });
  return found == std::end(kCommands) ? nullptr : *found;
}

std::string unknownCommand(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : kCommands)
    names.emplace_back(command->name);
  if (isGroup(name)) {
    std::string text = "`" + name + "` needs one of:";
    for (const std::string& known : names) {
      if (known.starts_with(name + " ")) text += known.substr(name.size());
    }
    return text;
  }
  for (const Command* command : kCommands) {
    const std::string group(command->name.substr(0, command->name.find(' ')));
    if (isGroup(group)) names.push_back(group);
  }
  for (const GroupAlias& each : kGroupAliases)
    names.emplace_back(each.alias);
  const std::string nearest = base::nearestName(name, names);
  return "no command `" + printable(name) + "`" +
         (nearest.empty() ? "; see `cloister --help`" : "; did you mean `" + nearest + "`?");
}

void complain(const std::string& message) {
  const bool colour = mayColour(STDERR_FILENO);
  writeTo(STDERR_FILENO, (colour ? "\x1b[31mcloister:\x1b[0m " : "cloister: ") + message + "\n");
}

Result<Invocation> parse(const Command& command, const std::vector<std::string>& arguments) {
  std::vector<Flag> known(command.flags.begin(), command.flags.end());
  known.insert(known.end(), std::begin(kGlobalFlags), std::end(kGlobalFlags));
  Invocation invocation;
  invocation.flags = TRY(Flags::parse(known, arguments));
  const Flags& flags = invocation.flags;
  if (flags.operands().size() > command.max_operands && !flags.has("help")) {
    return fail(Code::kInvalid, "what is \"" + printable(flags.operands()[command.max_operands]) +
                                    "\" for? usage: cloister " + std::string(command.name) + " " +
                                    std::string(command.operands));
  }
  invocation.globals = {.json = flags.has("json"),
                        .url = flags.text("url"),
                        .key_file = flags.text("key-file"),
                        .state = flags.text("state")};
  return invocation;
}

int runOne(const Command& command, const std::vector<std::string>& arguments) {
  const auto invocation = parse(command, arguments);
  if (!invocation) {
    complain(invocation.error().message + "\nsee `cloister " + std::string(command.name) +
             " --help`");
    return command.failure_status == 1 ? kUsageStatus : command.failure_status;
  }
  if (invocation->flags.has("help")) {
    writeTo(STDOUT_FILENO, helpFor(command));
    return 0;
  }
  const Result<int> status = command.run(*invocation);
  if (status) return *status;
  complain(status.error().message);
  return command.failure_status;
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

int runCommandLine(const std::vector<std::string>& arguments) {
  Split split = splitCommand(arguments);
  if (!split.words.empty() && split.words[0] == "help") {
    split = splitCommand(split.arguments);
    split.arguments = {"--help"};
  }
  const std::string name = joined(split.words);
  const bool help = std::ranges::any_of(
      split.arguments, [](const std::string& a) { return a == "--help" || a == "-h"; });
  if (const Command* command = find(name); command != nullptr) {
    return runOne(*command, split.arguments);
  }
  if (name.empty() && split.arguments == std::vector<std::string>{"--version"}) {
    return runOne(kVersion, {});
  }
  if (name.empty() || (help && isGroup(name))) {
    writeTo(help ? STDOUT_FILENO : STDERR_FILENO, generalHelp());
    return help ? 0 : kUsageStatus;
  }
  complain(unknownCommand(name));
  return kUsageStatus;
}

}  // namespace cloister::cli

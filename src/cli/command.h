// SPDX-License-Identifier: Apache-2.0
// The table of commands: parsing, --help and shell completion all read the table. To add a command,
// define a Command in a file, and add its line to commands.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/flags.h"
#include "base/result.h"
#include "cli/server.h"

namespace cloister::cli {

struct Invocation {
  Globals globals;
  base::Flags flags;
};

struct Command {
  std::string_view name = {};      // "run", "execution list", "session memory list"
  std::string_view operands = {};  // "ID", "[FILE | -] [-- ARGS]", "" for none
  size_t max_operands = 0;
  std::string_view summary = {};
  std::string_view details = {};  // more paragraphs for --help
  std::span<const base::Flag> flags = {};
  std::string_view examples = {};
  // The exit status, or an error to be printed. `failure_status` is the status of every error; 0:
  // the status follows from the error (errorStatus() of render/verdict.h).
  Result<int> (*run)(const Invocation&) = nullptr;
  int failure_status = 0;
};

// All commands, in the order of --help.
std::span<const Command* const> commands();
// The first words of names: "session", "session memory".
struct Group {
  std::string_view name;
  std::string_view summary;
};
// All groups, in the order of --help.
std::span<const Group> groups();
// Another first word of a name: `cloister sandbox show` is `cloister agent show`.
struct GroupAlias {
  std::string_view alias;
  std::string_view group;
};
std::span<const GroupAlias> groupAliases();
// The flags of every command.
std::span<const base::Flag> globalFlags();

std::string helpFor(const Command& command);
std::string groupHelp(const Group& group);
std::string generalHelp();

// The first words of a command line that name a command or a group, and the other words in order.
struct Split {
  std::vector<std::string> words;
  std::vector<std::string> arguments;

  [[nodiscard]] std::string name() const;  // the words, with spaces between
};
// Skips global flags, with their values, before and within the name. An alias of a group or of a
// verb is replaced by the name.
Split splitCommand(const std::vector<std::string>& arguments);
const Command* findCommand(std::string_view name);  // nullptr: none
const Group* findGroup(std::string_view name);      // nullptr: none

// main() of `cloister`.
int runCommandLine(const std::vector<std::string>& arguments);

extern const Command kServe;
extern const Command kMcp;
extern const Command kMcpServerAdd;
extern const Command kMcpServerList;
extern const Command kMcpServerRemove;
extern const Command kRun;
extern const Command kExecutionList;
extern const Command kExecutionShow;
extern const Command kExecutionLogs;
extern const Command kExecutionWatch;
extern const Command kExecutionCancel;
extern const Command kExecutionSbom;
extern const Command kExecutionRequest;
extern const Command kExec;
extern const Command kSessionCreate;
extern const Command kSessionList;
extern const Command kSessionShow;
extern const Command kSessionRenew;
extern const Command kSessionMove;
extern const Command kSessionEnd;
extern const Command kSessionRm;
extern const Command kSessionEvents;
extern const Command kSessionFiles;
extern const Command kSessionWatch;
extern const Command kSessionKernels;
extern const Command kSessionMemoryList;
extern const Command kSessionMemoryGet;
extern const Command kSessionMemorySet;
extern const Command kSessionMemoryDelete;
extern const Command kShell;
extern const Command kPortOpen;
extern const Command kPortLink;
extern const Command kSessionSnapshot;
extern const Command kSessionFork;
extern const Command kSnapshotList;
extern const Command kSnapshotShow;
extern const Command kSnapshotRm;
extern const Command kCopy;
extern const Command kArtifactList;
extern const Command kArtifactPut;
extern const Command kArtifactGet;
extern const Command kArtifactUrl;
extern const Command kArtifactRm;
extern const Command kArtifactDestroy;
extern const Command kKeyCreate;
extern const Command kKeyList;
extern const Command kSignInList;
extern const Command kSignInEnd;
extern const Command kKeyShow;
extern const Command kKeyRotate;
extern const Command kKeyRevoke;
extern const Command kWhoami;
extern const Command kEscalationRequest;
extern const Command kEscalationPending;
extern const Command kEscalationList;
extern const Command kEscalationShow;
extern const Command kEscalationApprove;
extern const Command kEscalationDeny;
extern const Command kEscalationPolicy;
extern const Command kAuditList;
extern const Command kAuditVerify;
extern const Command kAuditRedact;
extern const Command kAuditExport;
extern const Command kAuditReceipt;
extern const Command kAuditRoots;
extern const Command kAuditProof;
extern const Command kAuditVerifyProof;
extern const Command kAuditVerifyReceipt;
extern const Command kAuditPublicKey;
extern const Command kMcpInstall;
extern const Command kPolicyCheck;
extern const Command kPolicyApply;
extern const Command kPolicyShow;
extern const Command kPolicyHistory;
extern const Command kPolicyRollback;
extern const Command kPolicyDiff;
extern const Command kPolicyTest;
extern const Command kPolicyExport;
extern const Command kPolicyExplain;
extern const Command kEgressExplain;
extern const Command kPolicyExplainCommand;
extern const Command kSandboxCreate;
extern const Command kSandboxUpdate;
extern const Command kSandboxShow;
extern const Command kSandboxDelete;
extern const Command kSandboxAllow;
extern const Command kSandboxForbid;
extern const Command kSandboxGrant;
extern const Command kSandboxRevoke;
extern const Command kSandboxLimit;
extern const Command kSandboxMonitor;
extern const Command kSandboxViolations;
extern const Command kSandboxAudit;
extern const Command kSandboxStats;
extern const Command kSandboxCheck;
extern const Command kSandboxFilter;
extern const Command kSandboxHealthCheck;
extern const Command kDepsList;
extern const Command kDepsShow;
extern const Command kDepsPrune;
extern const Command kToolList;
extern const Command kToolCall;
extern const Command kToolShow;
extern const Command kQuotaShow;
extern const Command kQuotaSet;
extern const Command kQuotaUnset;
extern const Command kSecretSet;
extern const Command kSecretList;
extern const Command kSecretRemove;
extern const Command kImageList;
extern const Command kImageShow;
extern const Command kImageImport;
extern const Command kImagePull;
extern const Command kImageRemove;
extern const Command kImageVerify;
extern const Command kPool;
extern const Command kDoctor;
extern const Command kVersion;
extern const Command kCompletion;

}  // namespace cloister::cli

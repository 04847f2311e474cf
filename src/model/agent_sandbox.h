// SPDX-License-Identifier: Apache-2.0
// AgentSandbox: the rights of one agent of a tenant: a level of policies/levels.yaml, and additions
// and removals for this agent alone. Violation: one attempt of the agent to exceed these rights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

// Names of operations in grants, revocations and temporary approvals.
inline constexpr std::string_view kAgentOperations[] = {
    "file_read", "file_write",        "file_create",  "file_delete",
    "network",   "command_execution", "quality_gate", "workflow"};
bool isAgentOperation(std::string_view name);
// Possible values of `require_human_approval`: operations and kinds of operations.
inline constexpr std::string_view kApprovalKinds[] = {
    "file_read",     "file_write",         "file_create",        "file_delete",
    "network",       "command_execution",  "quality_gate",       "workflow",
    "config_change", "database_operation", "system_file_access", "privileged_operation"};
// "file_read, file_write, …"
std::string approvalKindNames();
bool isApprovalKind(std::string_view name);

// A permission until a time. Afterwards the permission has no effect and needs no removal.
struct TemporaryPermission {
  std::string operation;  // of kAgentOperations
  // A path or URL, with * for any characters; the exact text of a command (for argv, its words
  // joined by a space); the name of a gate or workflow.
  std::string pattern;
  int64_t expires_at = 0;     // wall-clock microseconds
  std::string escalation_id;  // the escalation that gave the permission
  bool by_rule = false;       // approved by a rule, not a person; not in records
};

// The agent's own limits; an absent limit is the level's.
struct AgentLimits {
  std::optional<uint64_t> memory_mb;     // total of all concurrent runs
  std::optional<uint64_t> cpu_percent;   // of a single processor, in total for concurrent runs
  std::optional<uint64_t> time_seconds;  // of a run, as the next two
  std::optional<uint64_t> disk_mb = {};
  std::optional<uint64_t> file_mb = {};
  std::optional<uint64_t> concurrent = {};           // runs and sessions at once
  std::optional<uint64_t> requests_per_minute = {};  // over the network
};

// Each limit with its name in the API and in records, and its maximum.
struct AgentLimitKind {
  std::string_view name;
  std::optional<uint64_t> AgentLimits::* member;
  int64_t most;
};
inline constexpr AgentLimitKind kAgentLimits[] = {
    {"memory_mb", &AgentLimits::memory_mb, int64_t{1} << 24},
    {"cpu_percent", &AgentLimits::cpu_percent, 100'000},
    {"time_seconds", &AgentLimits::time_seconds, int64_t{366} * 24 * 3600},
    {"disk_mb", &AgentLimits::disk_mb, int64_t{1} << 24},
    {"file_mb", &AgentLimits::file_mb, int64_t{1} << 24},
    {"concurrent", &AgentLimits::concurrent, 1'000'000},
    {"requests_per_minute", &AgentLimits::requests_per_minute, 1'000'000'000}};

// Handling of operations that need an approval; absent values are the level's.
struct AgentEscalation {
  std::optional<bool> auto_approve_safe;
  std::optional<std::vector<std::string>> require_human_approval;
  std::optional<uint64_t> timeout_seconds;
  std::optional<std::string> fallback_action;  // "deny" or "allow_read_only"
  std::optional<std::vector<std::string>> notification_channels;
};

// Permitted options and paths of a program. Empty: the level's.
struct ParameterRestriction {
  std::string command;  // the name of a program
  std::vector<std::string> allowed_flags = {};
  std::vector<std::string> forbidden_flags = {};
  std::vector<std::string> allowed_paths = {};  // globs
};

struct AgentSandbox {
  std::string tenant;
  std::string agent;
  std::string level;
  std::vector<std::string> allowed_commands;  // patterns, as the document's
  std::vector<std::string> forbidden_commands;
  // Commands of its own list alone are allowed, and none of its level's.
  bool whitelist_mode = false;
  std::vector<std::string> dangerous_patterns = {};               // of commands; denied
  std::vector<ParameterRestriction> parameter_restrictions = {};  // at most a single entry for each
                                                                  // command
  std::vector<std::string> forbidden_paths;                       // globs
  std::vector<std::string> granted_operations;  // of kAgentOperations; never in both lists
  std::vector<std::string> revoked_operations;
  AgentLimits limits;
  bool nested = false;  // each of its sessions is (Session::nested)
  AgentEscalation escalation;
  std::vector<TemporaryPermission> temporary_permissions;
  std::string created_by;        // creator: "user", else "app", else the credential
  int64_t created_at = 0;        // wall-clock microseconds, as the others
  int64_t last_modified = 0;     // by a person or by a rule
  int64_t level_since = 0;       // earlier violations do not lower the level again
  uint64_t violation_count = 0;  // since the creation
  uint64_t version = 0;          // 1, 2, 3 … with each change
};

// The lists of a ParameterRestriction with their names in the API and in records.
inline constexpr std::pair<std::string_view, std::vector<std::string> ParameterRestriction::*>
    kParameterLists[] = {{"allowed_flags", &ParameterRestriction::allowed_flags},
                         {"forbidden_flags", &ParameterRestriction::forbidden_flags},
                         {"allowed_paths", &ParameterRestriction::allowed_paths}};
base::json::object toJsonObject(const ParameterRestriction& restriction);

// How many of each an agent may have of its own.
inline constexpr size_t kMaxAgentRules = 256;
inline constexpr size_t kMaxAgentName = 128;

// kInvalid, of `field`: not 1 to 128 bytes of UTF-8 without control characters.
Result<> checkAgentName(std::string_view name, const std::string& field);

// The form in the ledger. parse… refuses any record that toRecord() could not have made.
base::json::object toRecord(const AgentSandbox& sandbox);
Result<AgentSandbox> parseAgentRecord(const base::json::object& record);

struct Violation {
  uint64_t seq = 0;  // given by the ledger
  std::string id;    // vio_…
  std::string tenant;
  std::string agent;
  int64_t at = 0;         // wall-clock microseconds
  std::string level;      // the level at the violation
  std::string operation;  // of kAgentOperations, or "resources"
  std::string what;       // the command, path …; at most kMaxShown bytes
  std::string outcome;    // "denied", "resource_exceeded", "unsafe_command", or kBoundary
  std::string rule;       // the refusing pattern, "" for the level's general rule
  std::string reason;
  std::string words;    // of the command
  std::string subject;  // the execution or session, "" if none
  static constexpr size_t kMaxShown = 512;
  // An operation on another agent's session, by that agent's rules, or a call that any program
  // there may have made. Recorded but not counted: lowers no agent's level.
  static constexpr std::string_view kBoundary = "agent_boundary";
};

// `text` cut to Violation::kMaxShown at a character boundary; invalid UTF-8 is not shown.
std::string shownText(std::string_view text);

}  // namespace cloister::model

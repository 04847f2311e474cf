// SPDX-License-Identifier: Apache-2.0
// Levels: an agent's permissions, by name, from a document (policies/levels.yaml). The command
// filter reads the parts about commands, policy/agent/validate.h the whole document. Immutable once
// parsed; thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "base/json.h"
#include "policy/command/image_names.h"
#include "policy/command/pattern.h"

namespace cloister::policy {

enum class Outcome : uint8_t { kAllow, kEscalate, kDeny };  // the worst last
std::string_view outcomeName(Outcome outcome);

struct CommandRule {
  CommandPattern pattern;
  std::string why;
  std::string risk;        // name of a dangerous pattern
  std::string mitigation;  // advice; "" for the general advice
  Outcome outcome = Outcome::kAllow;
};

// Permitted options and paths of a program.
struct ParameterRule {
  std::string command;
  std::string why;
  std::vector<std::string> allowed_flags;  // empty: any
  std::vector<std::string> forbidden_flags;
  std::vector<std::string> allowed_paths;  // as globs; empty: any
};

struct PathRule {
  std::string path;  // a glob
  std::string why;
  bool reads = true;       // also forbids reading, not only changes
  bool escalation = true;  // an approval is possible
};

// Absent limits are not set by the level.
struct LevelLimits {
  std::optional<uint64_t> memory_mb;    // total of all running programs, as the next
  std::optional<uint32_t> cpu_percent;  // of a processor
  std::optional<uint64_t> disk_mb;      // of a run, as the next two
  std::optional<uint64_t> time_seconds;
  std::optional<uint64_t> file_mb;
  std::optional<uint32_t> concurrent;           // runs and sessions at once
  std::optional<uint32_t> requests_per_minute;  // over the network
};

// When violations lower a level.
struct LoweringRule {
  std::string from;
  std::string to;
  uint32_t after = 1;  // number of violations
  uint32_t within_minutes = 60;
  std::string why;
};

// Programs started by other programs, which a level with a list must include as well.
struct Helpers {
  std::vector<std::string> of;  // globs of names, as the next
  std::vector<std::string> starts;
  std::string why;
};

// Handling of operations refused by the level that a person could allow.
struct LevelEscalation {
  bool auto_approve_safe = false;
  std::vector<std::string> require_human_approval;  // of model::kApprovalKinds
  std::optional<uint64_t> timeout_seconds;          // absent: the configuration's
  std::string fallback_action = "deny";             // or "allow_read_only", applied at the timeout
};

struct Level {
  std::string name;
  std::string description;
  std::string why;
  Outcome doubt = Outcome::kEscalate;         // for text unreadable for the filter
  Outcome project_code = Outcome::kEscalate;  // for code of the project, unread by the filter
  std::vector<CommandRule> allowed;           // none matches: denied
  std::vector<CommandRule> forbidden;
  std::vector<CommandRule> dangerous;
  std::vector<ParameterRule> parameters;
  std::vector<PathRule> forbidden_paths;
  // Entries: read, write, create, delete, write_temp, write_non_config, delete_non_system.
  std::vector<std::string> file_operations;
  std::string network_access;  // denied, internal_only, allowed_with_monitoring or allowed
  std::vector<std::string> quality_gates;  // globs of their names, as the next
  std::vector<std::string> workflows;      // "NAME" or "NAME:ACTION"
  LevelLimits limits;
  LevelEscalation escalation;
};

// A safe operation: a rule may approve the operation for an agent without the permission.
struct SafeOperation {
  std::string operation;               // file_read, file_write, file_delete or command_execution
  std::string path;                    // a glob, of files
  std::shared_ptr<const Level> level;  // a level that allows the command
  std::string why;
};

struct Levels {
  CommandBounds bounds;
  std::map<std::string, Level, std::less<>> levels;
  std::vector<LoweringRule> lowering;
  std::vector<Helpers> helpers;
  std::vector<SafeOperation> safe;
  std::shared_ptr<ImageNames> image = std::make_shared<ImageNames>();  // set later by the node
};

// kInvalid names the member; every rule must say why.
Result<Levels> parseLevels(std::string_view yaml, std::string_view name);

// Settings without effect yet, a sentence for each.
std::vector<std::string> warningsOf(const Level& level);
std::vector<std::string> warningsOf(const Levels& levels);

}  // namespace cloister::policy

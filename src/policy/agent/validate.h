// SPDX-License-Identifier: Apache-2.0
// Whether an agent may do an intended operation: the agent's rules and an operation in, one of four
// outcomes out. Pure: no I/O and no clock; thread-safe. Without a matching rule the operation is
// denied.
//
// The order: revoked; forbidden path; the operations that the level allows; among the refused ones,
// those approved for a time, unless nobody may approve the operation (escalation_available); the
// resources that the operation needs. No approval lifts a revoked permission to change files. Paths
// are compared as text: the kernel of a sandbox resolves the sandbox's links.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/agent/operation.h"
#include "policy/agent/rules.h"
#include "policy/command/filter.h"

namespace cloister::policy {

struct ExceededLimit {
  std::string limit;  // "memory_mb", "cpu_percent", "time_seconds", …
  uint64_t limit_value = 0;
  uint64_t used = 0;    // by running programs
  uint64_t wanted = 0;  // by the operation
};

struct Validation {
  enum class Kind : uint8_t { kApproved, kDenied, kResourceExceeded, kUnsafeCommand };

  Kind kind = Kind::kApproved;
  // Approved.
  std::vector<std::string> conditions;
  bool monitoring_required = false;
  std::string escalation_id;  // of the temporary permission that allowed the operation
  // Not approved.
  std::string reason;
  std::string rule;   // the refusing pattern, "" for the level's general rule
  std::string why;    // reason of the rule
  std::string words;  // the part of the command that caused the result
  bool escalation_available = false;
  bool human_approval = false;  // only a person may allow the operation
  std::string safe_by;          // otherwise: the entry of the table of safe operations
  std::vector<ExceededLimit> exceeded;
  std::string suggestion;  // resource exceeded
  std::vector<Risk> risk_factors;
  std::vector<std::string> mitigations;

  [[nodiscard]] bool approved() const { return kind == Kind::kApproved; }
};
// "approved", "denied", "resource_exceeded", "unsafe_command"
std::string_view kindName(Validation::Kind kind);

// `used`: resources of the agent's running programs. `now`: wall-clock microseconds.
Validation validateOperation(const AgentRules& rules, const Operation& operation,
                             const Resources& used, int64_t now);

// Whether a rule approves, at present, an operation that the level alone does not allow: a command,
// or a change of files whose path may be a pattern (file_grant.h).
bool ruleApproves(const AgentRules& rules, const Operation& operation);

// Checks only resources. A plan as a whole needs the sum of memory, time and disk, and the largest
// processor and file size.
Resources sumOf(const std::vector<Operation>& plan);
Validation validateResources(const AgentRules& rules, const Resources& wanted,
                             const Resources& used);

base::json::object toJsonObject(const Validation& validation);

}  // namespace cloister::policy

// SPDX-License-Identifier: Apache-2.0
// Levels: what an agent may do, by name, from a document (policies/levels.yaml). Here are the parts
// that are about commands; the others are read, checked and kept for who asks.
// Immutable once parsed; thread-safe.
#pragma once

#include <map>

#include "base/json.h"
#include "policy/command/pattern.h"

namespace cloister::policy {

enum class Outcome : uint8_t { kAllow, kEscalate, kDeny };  // the worst last
std::string_view outcomeName(Outcome outcome);

struct CommandRule {
  CommandPattern pattern;
  std::string why;
  std::string risk;        // of a dangerous pattern: what it is called
  std::string mitigation;  // what to do instead; "" for the general advice
  Outcome outcome = Outcome::kAllow;
};

// What the options and paths of one program may be.
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
};

struct Level {
  std::string name;
  std::string description;
  std::string why;
  Outcome doubt = Outcome::kEscalate;         // about what the filter cannot read
  Outcome project_code = Outcome::kEscalate;  // about code of the project, which it does not read
  std::vector<CommandRule> allowed;           // none matches: denied
  std::vector<CommandRule> forbidden;
  std::vector<CommandRule> dangerous;
  std::vector<ParameterRule> parameters;
  std::vector<PathRule> forbidden_paths;
  std::vector<std::string> file_operations;  // not enforced here, as the rest
  std::string network_access;
  base::json::object resource_limits;
  base::json::object escalation_policy;
};

struct Levels {
  CommandBounds bounds;
  std::map<std::string, Level, std::less<>> levels;
};

// kInvalid names the member; every rule must say why.
Result<Levels> parseLevels(std::string_view yaml, std::string_view name);

}  // namespace cloister::policy

// SPDX-License-Identifier: Apache-2.0
// The command filter: a command and a level in, a verdict with reasons out. Doubtful commands are
// allowed only if the level allows doubt. Pure; thread-safe.
//
// The filter judges only text, and can be deceived. The sandbox confines the program, whatever the
// text was.
#pragma once

#include "policy/command/levels.h"

namespace cloister::policy {

// A reason why a command is not simply allowed, for a place in the text.
struct Risk {
  std::string kind;  // "forbidden_command", "doubt kinds of effects.h" ...
  std::string what;
  std::string rule;  // its pattern; "" for the level's general rule
  std::string why;   // of the rule
  std::string mitigation;
  Outcome outcome = Outcome::kEscalate;
  Span span;
  bool certain = true;  // false: parts unknown from the text may be forbidden by the rule
};

struct Verdict {
  Outcome outcome = Outcome::kAllow;
  std::string rule;    // the deciding pattern, "" if none
  std::string why;     // reason of the rule
  std::string reason;  // for the reader
  std::vector<Risk> risks;
  std::vector<Execution> executions;
};

Verdict judgeCommand(const Level& level, Effects effects);

// Whether a person may allow a refused command for a time. Commands forbidden by name have no such
// exception. `level`: the one of the verdict.
bool mayBeApproved(const Level& level, const Verdict& verdict);

// A request {command | argv, level} → the verdict as JSON (spec/openapi.yaml: CommandVerdict).
Result<base::json::object> explainCommand(const Levels& levels, const base::json::object& request);

}  // namespace cloister::policy

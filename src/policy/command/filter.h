// SPDX-License-Identifier: Apache-2.0
// The command filter: a command and a level in, a verdict out, with its reasons. Doubt is never
// allowed, but where a level says so. Pure; thread-safe.
//
// The filter is advice: it reads text. What holds a program is the sandbox, whatever the text was.
#pragma once

#include "policy/command/levels.h"

namespace cloister::policy {

// Why a command is not simply allowed: one for each place.
struct Risk {
  std::string kind;  // "forbidden_command", "doubt kinds of effects.h" ...
  std::string what;
  std::string rule;  // its pattern; "" for what the level says in general
  std::string why;   // of the rule
  std::string mitigation;
  Outcome outcome = Outcome::kEscalate;
  Span span;
  bool certain = true;  // otherwise what is not written in the command may be what the rule forbids
};

struct Verdict {
  Outcome outcome = Outcome::kAllow;
  std::string rule;    // the pattern that decided, "" when none
  std::string why;     // of that rule
  std::string reason;  // for the reader
  std::vector<Risk> risks;
  std::vector<Execution> executions;
};

Verdict judgeCommand(const Level& level, Effects effects);

// A request {command | argv, level} → the verdict as JSON (spec/openapi.yaml: CommandVerdict).
Result<base::json::object> explainCommand(const Levels& levels, const base::json::object& request);

}  // namespace cloister::policy

// SPDX-License-Identifier: Apache-2.0
// The risk score of a request: points by a table of weights in the policy document, so that a
// reader of the document can do the sum. The score chooses the tier where a rule names none, and
// rules can match on the score. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/language.h"
#include "model/principal.h"
#include "model/run_request.h"

namespace cloister::policy {

struct Levels;

// Facts from a request's large parts, kept because services release the parts before policy is
// asked again.
struct RiskFacts {
  // Kinds of policy::Risk, sorted and unique; "perhaps" stands for all uncertain kinds.
  std::vector<std::string> command_risks;
  std::vector<std::string> variables;  // names in its environment
};

// The level whose filter finds the risks of commands.
inline constexpr std::string_view kRiskLevel = "standard";

// Judges the command by kRiskLevel of `levels`: text for a shell, argv, code in a shell's language,
// or commands run by other code (shellouts.h). Text unreadable for the filter is a risk too.
// Without the level there are no such risks.
RiskFacts riskFactsOf(const model::RunRequest& request, const model::LanguageSet& languages,
                      const Levels* levels);

// Points by name; unnamed entries have the points of "other".
struct PointTable {
  std::map<std::string, int, std::less<>> points;
  [[nodiscard]] int of(std::string_view name) const;
};

// Points for each of some things, up to a most.
struct PointsEach {
  int each = 0;
  int most = 0;
  [[nodiscard]] int of(size_t count) const;
};

struct RiskWeights {
  PointTable languages;
  PointTable commands;  // by kind of risk, each kind once
  PointTable network;   // by tier
  PointTable roles;     // of the principal; the highest counts
  PointTable tenants;
  PointsEach dependencies;
  PointsEach secrets;
  std::vector<std::string> secret_names;  // globs of variable names that count as secrets
};

// An upper bound of any request's score, possibly never reached.
int mostPoints(const RiskWeights& weights);

// A term of the sum.
struct RiskLine {
  std::string factor;  // "language", "command", "network", "dependencies", "secrets", "principal"
  std::string what;    // "python", "3 of them"
  int points = 0;
};

// The subject of a score.
struct RiskSubject {
  std::string_view language;
  const model::RunRequest& request;
  const model::Principal& principal;
  const RiskFacts* facts = nullptr;  // null: no facts
};

// The sum; `lines` receives the non-zero terms.
int riskOf(const RiskWeights& weights, const RiskSubject& subject,
           std::vector<RiskLine>* lines = nullptr);

}  // namespace cloister::policy

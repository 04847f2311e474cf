// SPDX-License-Identifier: Apache-2.0
// Finds the rules that can never match. Each rule is a box: one set of values for each condition. A
// rule is dead when the boxes of earlier rules cover all of its box. Some cases are undecided: a
// rule with more remainders than kMaxPieces, and patterns that overlap in part. Such a rule counts
// as alive. Pure.
#pragma once

#include <string>
#include <vector>

#include "policy/document.h"

namespace cloister::policy {

struct DeadRule {
  const Rule* rule = nullptr;
  std::vector<const Rule*> covered_by;  // earlier rules, in their order; empty: no request matches
  std::string why;                      // without covering rules: why no request matches
};

std::vector<DeadRule> deadRules(const Policy& policy);

}  // namespace cloister::policy

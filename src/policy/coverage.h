// SPDX-License-Identifier: Apache-2.0
// Which rules can never match. Each rule is a box: one set of values for each condition. A rule is
// dead when the boxes of earlier rules cover all of its box. Where that cannot be told, for a rule
// with more remainders than kMaxPieces or for patterns that overlap in part, the rule counts as
// alive. Pure.
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

// SPDX-License-Identifier: Apache-2.0
// The DLP rules of the configuration for one place, compiled. Shared by cloisterd and
// cloister-egress.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/dlp_settings.h"
#include "redact/rules.h"

namespace cloister {

// Null: no rule looks there. kInvalid names the key of a pattern that RE2 cannot read.
inline Result<std::shared_ptr<const redact::Rules>> dlpRules(const model::DlpSettings& settings,
                                                             model::DlpPlace place) {
  constexpr redact::RuleAction kActions[] = {
      redact::RuleAction::kReport, redact::RuleAction::kRedact, redact::RuleAction::kRefuse};
  std::vector<redact::Rule> rules;
  std::vector<size_t> places;  // in the configuration
  for (size_t i = 0; i < settings.rules.size(); ++i) {
    const model::DlpRule& rule = settings.rules[i];
    if (!rule.looksIn(place)) continue;
    rules.push_back({rule.name, rule.pattern, kActions[static_cast<size_t>(rule.action)]});
    places.push_back(i);
  }
  if (rules.empty()) return nullptr;
  auto made = redact::Rules::make(std::move(rules), settings.match_bytes);
  if (made) return *std::move(made);
  const std::string key = "dlp.rules[" + std::to_string(places[made.error().rule]) + "].pattern";
  return fail(Code::kInvalid, key + ": is no regular expression of RE2: " + made.error().why, key);
}

}  // namespace cloister

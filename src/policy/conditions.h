// SPDX-License-Identifier: Apache-2.0
// The list conditions of a rule, as one table. Reading, matching and explaining a rule all use the
// table. To add a condition: its member in Conditions, its row here, policies/policy.schema.json
// and docs/POLICY.md.
#pragma once

#include <span>
#include <string_view>

#include "policy/decide.h"

namespace cloister::policy {

struct ListCondition {
  std::string_view key;  // in the document
  std::vector<std::string> Conditions::* list;
  bool in_version_1 = false;
  std::span<const std::string_view> known = {};  // permitted values; empty: any text
  bool many = false;                             // a question may have none, or several
  // Calls `each` with the question's values until `each` returns true; returns whether it did.
  bool (*any)(const Question& question, bool (*each)(std::string_view, const void*),
              const void* with) = nullptr;
};

std::span<const ListCondition> listConditions();

// Whether a value of the question matches an entry of the rule's list, or the list is empty. In
// conditions an asterisk stands for any characters (base/glob.h).
bool holds(const ListCondition& condition, const Conditions& match, const Question& question);

// Check the other conditions, with a known score.
bool dependenciesHold(const Conditions& match, const Question& question);
bool sessionHolds(const Conditions& match, const Question& question);
bool scoreHolds(const Conditions& match, int score);

// Why `text` cannot be a name or a pattern in a condition; "" if valid.
std::string whyNoPattern(std::string_view text);

// "numpy==1.26.4" → "numpy"; "@scope/name@1" → "@scope/name".
std::string_view dependencyName(std::string_view text);

}  // namespace cloister::policy

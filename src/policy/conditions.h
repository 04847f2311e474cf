// SPDX-License-Identifier: Apache-2.0
// The conditions of a rule that are lists, as one table: reading, matching and explaining a rule
// all go by it. To add one: its member in Conditions, its row here, policies/policy.schema.json and
// docs/POLICY.md.
#pragma once

#include <span>
#include <string_view>

#include "policy/decide.h"

namespace cloister::policy {

struct ListCondition {
  std::string_view key;  // in the document
  std::vector<std::string> Conditions::* list;
  bool in_version_1 = false;
  std::span<const std::string_view> known = {};  // values there are; empty: any text
  bool many = false;                             // a question may have none, or more than one
  // Calls `each` with what the question has, until it gives true; whether it did.
  bool (*any)(const Question& question, bool (*each)(std::string_view, const void*),
              const void* with) = nullptr;
};

std::span<const ListCondition> listConditions();

// Whether one of the question's values matches one of the rule's list, or the list is empty. In
// each condition an asterisk stands for any characters (base/glob.h).
bool holds(const ListCondition& condition, const Conditions& match, const Question& question);

// Of the other conditions, for a score that was worked out before.
bool dependenciesHold(const Conditions& match, const Question& question);
bool sessionHolds(const Conditions& match, const Question& question);
bool scoreHolds(const Conditions& match, int score);

// Why `text` cannot be a name or a pattern in a condition; "" where it can.
std::string whyNoPattern(std::string_view text);

// "numpy==1.26.4" → "numpy"; "@scope/name@1" → "@scope/name".
std::string_view dependencyName(std::string_view text);

}  // namespace cloister::policy

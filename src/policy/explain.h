// SPDX-License-Identifier: Apache-2.0
// Decisions for readers: why one came about, what a new document would change, and whether a
// document decides as its author says it should. Nothing is run and nothing recorded. Pure, but for
// what the parts hold; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/language.h"
#include "policy/command/levels.h"
#include "policy/decide.h"

namespace cloister::policy {

// What supposed requests are read with.
struct ReaderParts {
  const model::LanguageSet& languages;
  const Levels& levels;
  const model::RequestBounds& bounds;
  const std::vector<std::string>* runtimes = nullptr;        // that the node offers
  const std::vector<model::OfferedImage>* images = nullptr;  // likewise
};

// A request that somebody supposes, by somebody that they suppose.
struct Supposed {
  model::RunRequest request;
  model::Principal principal;
  RiskFacts facts;
  std::string language;  // ruleLanguage()
  std::string_view operation = "run";
  bool in_session = false;
  bool approved = false;
  std::vector<std::string> runtimes;
  std::vector<model::OfferedImage> images;

  // Good as long as this.
  [[nodiscard]] Question question() const;
};

// Reads {request, principal, operation, session, approved, runtimes, images}: all but `request` may
// be left out, and then it is `asker`, a run alone, and what the node offers. Members of `object`
// that it does not know are for the caller to finish.
Result<Supposed> readSupposed(base::ObjectReader& reader, const ReaderParts& parts,
                              const model::Principal& asker);
// The same of a request that is parsed.
Supposed suppose(model::RunRequest request, model::Principal principal, const ReaderParts& parts);

// What was decided, in a word: "allow", "deny" or "approve".
std::string_view outcomeOf(const Evaluation& made);

// Which rules an explanation lists. What a rule that does not match is for may name other tenants.
enum class Listed : uint8_t { kAll, kMatching };

// The decision, the rules in their order with what each found, and the arithmetic of the score
// (spec/openapi.yaml: PolicyExplanation).
base::json::object explain(const Policy& policy, const Question& question,
                           Listed listed = Listed::kAll);
// Only the decision: {decision, rule, tier, runtime, reason}; equal where nothing changes.
base::json::object briefly(const Policy& policy, const Question& question);

// Rules that came, went, changed or moved, and whether the weights and tiers are others.
base::json::object differences(const Policy& from, const Policy& to);

// Runs the cases of a document (docs/POLICY.md: cases) against `policy`. kInvalid for cases that
// cannot be read, with line and member.
Result<base::json::object> runCases(const Policy& policy, std::string_view yaml,
                                    const ReaderParts& parts);

}  // namespace cloister::policy

// SPDX-License-Identifier: Apache-2.0
// Decisions for readers: the reasons for a decision, the effects of a new document, and whether a
// document decides as its author claims. Nothing is run and nothing recorded. Pure, except for the
// state that the parts hold; thread-safe.
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

// The context for reading supposed requests.
struct ReaderParts {
  const model::LanguageSet& languages;
  const Levels& levels;
  const model::RequestBounds& bounds;
  const std::vector<std::string>* runtimes = nullptr;        // the node's offers
  const std::vector<model::OfferedImage>* images = nullptr;  // offered by the node, too
  const model::InternalDestinations* internal = nullptr;     // of the configuration
  const model::PackageSettings* packages = nullptr;          // the same
};

// A supposed request by a supposed principal.
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
  model::InternalDestinations internal;
  model::PackageSettings packages;
  std::optional<AgentNetwork> agent_network;  // nullopt: the agent is held to no rules

  // Valid for the lifetime of this object.
  [[nodiscard]] Question question() const;
};

// Reads {request, principal, operation, session, approved, runtimes, images}. All but `request` are
// optional: the defaults are `asker`, a separate run, and the node's offers. The caller must finish
// unknown members of `object`.
Result<Supposed> readSupposed(base::ObjectReader& reader, const ReaderParts& parts,
                              const model::Principal& asker);
// The same for a parsed request.
Supposed suppose(model::RunRequest request, model::Principal principal, const ReaderParts& parts);

// The outcome in a word: "allow", "deny" or "approve".
std::string_view outcomeOf(const Evaluation& made);

// Rules listed by an explanation. Conditions of a rule without a match may name other tenants.
enum class Listed : uint8_t { kAll, kMatching };

// The decision, the rules in order with their findings, and the computation of the score
// (spec/openapi.yaml: PolicyExplanation).
base::json::object explain(const Policy& policy, const Question& question,
                           Listed listed = Listed::kAll);
// Only the decision: {decision, rule, tier, runtime, network, reason}; equal where nothing changes.
// `network`: the destinations of the sandbox, each in a line; null without a network.
base::json::object briefly(const Policy& policy, const Question& question);

// Rules added, removed, changed or moved, and whether weights and tiers differ.
base::json::object differences(const Policy& from, const Policy& to);

// Runs the cases of a document (docs/POLICY.md: cases) against `policy`. kInvalid for cases that
// cannot be read, with line and member.
Result<base::json::object> runCases(const Policy& policy, std::string_view yaml,
                                    const ReaderParts& parts);

}  // namespace cloister::policy

// SPDX-License-Identifier: Apache-2.0
// Policy documents: YAML of the operator (docs/POLICY.md, policies/policy.schema.json). Rules are
// read in order, and the first matching rule decides; without a matching rule the request is
// denied. Each rule has a reason. Version 2 is the current format; version 1, of single files, is
// still read.
//
// Immutable once parsed; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/limits.h"
#include "model/network.h"
#include "policy/risk.h"

namespace cloister::policy {

// Tiers of control over a run, the weakest first.
enum class Tier : uint8_t { kAuto, kAssisted, kHumanApprove, kManualOnly };
inline constexpr size_t kTiers = 4;
std::string_view tierName(Tier tier);
std::optional<Tier> tierFromName(std::string_view name);

// The strength of a runtime's isolation: more is stronger; nullopt for an unknown runtime.
std::optional<int> runtimeStrength(std::string_view runtime);

// Whose consent is wanted; see NeedsApproval.
struct Approval {
  std::vector<std::string> roles = {"approver"};
  uint32_t quorum = 1;
  int64_t ttl_seconds = 3600;
  std::string fallback = "deny";
};

struct TierSetting {
  std::string runtime;              // the weakest permitted
  std::optional<Approval> approve;  // required for this tier
  std::optional<int> from_score;    // score from which the tier applies, unless a rule names a tier
};

// Conditions of a rule. Empty lists match everything; in a list, * stands for any characters.
struct Conditions {
  std::vector<std::string> tenants;
  std::vector<std::string> apps;
  std::vector<std::string> agents;
  std::vector<std::string> users;
  std::vector<std::string> roles;      // matches if the principal has a listed role
  std::vector<std::string> languages;  // see ruleLanguage()
  std::vector<std::string> network_tiers;
  std::vector<std::string> tool_types;  // of the request's metadata; only the client's claim
  std::vector<std::string> operations;  // see kOperations
  std::optional<bool> has_dependencies;
  std::vector<std::string> any_dependency;     // matches if a listed dependency is requested
  std::vector<std::string> only_dependencies;  // matches if any dependency is requested and all are
                                               // listed
  std::optional<int> score_at_least;
  std::optional<bool> in_session;  // false: a run alone
};

// Operations of questions.
inline constexpr std::array<std::string_view, 5> kOperations = {"run", "session", "exec", "files",
                                                                "kernel"};

enum class Effect : uint8_t { kDeny, kAllow, kApprove };
std::string_view effectName(Effect effect);

struct Rule {
  std::string name;
  std::string why;     // required for each rule
  std::string remedy;  // of a denial: advice for the caller; "" for the general advice
  Conditions match;
  Effect effect = Effect::kDeny;
  Approval approval;                // of kApprove
  std::optional<Tier> tier;         // without: by the score
  std::string runtime;              // the weakest permitted, besides the tier's; "" none
  std::string image = "host";       // default image of requests
  std::vector<std::string> images;  // globs of further permitted images
  model::Limits max;                // requests above are denied, not lowered
  bool bounds_time = false;         // `max` names timeout_seconds, which then also limits sessions
  std::vector<std::string> operations;       // permitted operations; empty: all
  std::vector<model::NetworkEntry> network;  // the destinations that a request may ask for
  bool packages = true;                      // the package gateway answers sandboxes with a network
  std::string canonical;                     // JSON of the rule in the document
};

struct Policy {
  std::string id;       // "default@v3.sha256:…": name, version in the ledger, digest of the bytes
  std::string name;     // "default"
  std::string sha256;   // of the document's bytes, hex
  int64_t version = 0;  // in the ledger; 0: of a file
  int format = 0;       // 1 or 2
  std::vector<Rule> rules;
  RiskWeights risk;
  std::array<TierSetting, kTiers> tiers;
  std::string settings;       // JSON of the document except its rules
  std::string broken;         // the defect for which everything is denied
  std::string mending;        // remedy of `broken`; "" for the usual
  std::optional<int> score;   // score of all questions, if computed by another engine
  bool allow_weaker = false;  // from the configuration, not the document
};

// Parses a document. Errors give the line and the member: unknown keys, a missing `why`, no rules,
// a tier whose runtime is stronger than its rule's. `max` is the maximum for any rule, and the
// default of a rule's `max`.
Result<Policy> parsePolicy(std::string_view yaml, std::string_view name, const model::Limits& max);

// A policy that denies everything, in force while the intended policy is unreadable.
Policy brokenPolicy(std::string_view name, std::string why);

// Reads the approvers of a rule; errors name members below `path`.
Result<Approval> readApproval(const base::json::object& object, const std::string& path);

// As version `version` of the ledger.
void setVersion(Policy& policy, int64_t version);

}  // namespace cloister::policy

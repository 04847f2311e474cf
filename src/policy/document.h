// SPDX-License-Identifier: Apache-2.0
// Policy documents: YAML of the operator (docs/POLICY.md, policies/policy.schema.json). Rules are
// read in order, the first that matches decides, and where none does the answer is no. Each says
// why. Version 2 is what is written today; version 1, of single files, is still read.
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
#include "policy/risk.h"

namespace cloister::policy {

// How far a run is held, the weakest first.
enum class Tier : uint8_t { kAuto, kAssisted, kHumanApprove, kManualOnly };
inline constexpr size_t kTiers = 4;
std::string_view tierName(Tier tier);
std::optional<Tier> tierFromName(std::string_view name);

// How strong a runtime's wall is: more is stronger; nullopt for one that nobody knows.
std::optional<int> runtimeStrength(std::string_view runtime);

// Whose consent is wanted; see NeedsApproval.
struct Approval {
  std::vector<std::string> roles = {"approver"};
  uint32_t quorum = 1;
  int64_t ttl_seconds = 3600;
  std::string fallback = "deny";
};

struct TierSetting {
  std::string runtime;              // the weakest that will do
  std::optional<Approval> approve;  // nothing of this tier runs without it
  std::optional<int> from_score;    // chosen from this score on, where a rule names no tier
};

// What a request must be for a rule to decide it. Empty lists match everything; in a list, * stands
// for any characters.
struct Conditions {
  std::vector<std::string> tenants;
  std::vector<std::string> apps;
  std::vector<std::string> agents;
  std::vector<std::string> users;
  std::vector<std::string> roles;      // one of the principal's is among them
  std::vector<std::string> languages;  // see ruleLanguage()
  std::vector<std::string> network_tiers;
  std::vector<std::string> tool_types;  // of the request's metadata; only what the client says
  std::vector<std::string> operations;  // see kOperations
  std::optional<bool> has_dependencies;
  std::vector<std::string> any_dependency;     // one of them is asked for
  std::vector<std::string> only_dependencies;  // some are asked for, and none but these
  std::optional<int> score_at_least;
  std::optional<bool> in_session;  // false: a run alone
};

// What a question can be about.
inline constexpr std::array<std::string_view, 5> kOperations = {"run", "session", "exec", "files",
                                                                "kernel"};

enum class Effect : uint8_t { kDeny, kAllow, kApprove };
std::string_view effectName(Effect effect);

struct Rule {
  std::string name;
  std::string why;     // required: every rule says why
  std::string remedy;  // of a denial: what the caller can do; "" for the general advice
  Conditions match;
  Effect effect = Effect::kDeny;
  Approval approval;                // of kApprove
  std::optional<Tier> tier;         // without: by the score
  std::string runtime;              // the weakest that will do, beside what the tier asks; "" none
  std::string image = "host";       // what it runs in, where the request asks for no other
  std::vector<std::string> images;  // globs of those that a request may ask for besides
  model::Limits max;                // more than this is denied, not clamped
  bool bounds_time = false;  // `max` names timeout_seconds: it holds what lasts as a session, too
  std::vector<std::string> operations;  // that it allows; empty: all
  std::string canonical;                // JSON of what the document says
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
  std::string settings;       // JSON of what the document says besides its rules
  std::string broken;         // why it cannot be used: everything is denied, and this is the reason
  std::string mending;        // of `broken`: what helps; "" for the usual
  std::optional<int> score;   // of every question, where another engine worked it out
  bool allow_weaker = false;  // of the configuration; the document cannot say it
};

// Parses a document. Errors give the line and the member: unknown keys, a missing `why`, no rules,
// a tier whose runtime is stronger than the one its rule names. `max` is the most a rule can allow,
// and what it allows where its own `max` says nothing.
Result<Policy> parsePolicy(std::string_view yaml, std::string_view name, const model::Limits& max);

// The policy in force where the one that should be cannot be read.
Policy brokenPolicy(std::string_view name, std::string why);

// Whose consent is wanted, as documents say it; errors name members below `path`.
Result<Approval> readApproval(const base::json::object& object, const std::string& path);

// As version `version` of the ledger.
void setVersion(Policy& policy, int64_t version);

}  // namespace cloister::policy

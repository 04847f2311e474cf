// SPDX-License-Identifier: Apache-2.0
#include "policy/warnings.h"

#include <algorithm>
#include <array>

#include "base/glob.h"
#include "model/image_name.h"
#include "model/roles.h"
#include "policy/approval.h"
#include "policy/conditions.h"
#include "policy/coverage.h"

namespace cloister::policy {
namespace {

using Names = std::vector<std::string>;

// Minimum limits for starting any language of this service.
struct Least {
  std::string_view limit;
  uint64_t value;  // in the unit of its LimitKind
  std::string_view shown;
};
constexpr std::array<Least, 5> kLeast = {{
    {model::limit_name::kWall, 100, "0.1"},
    {model::limit_name::kMemory, uint64_t{16} << 20, "16"},
    {model::limit_name::kInodes, 64, "64"},
    {model::limit_name::kPids, 2, "2"},
    {model::limit_name::kOpenFiles, 32, "32"},
}};

std::string inQuotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

std::string inRule(const Rule& rule) {
  return "rule " + inQuotes(rule.name) + ": ";
}

bool anyMatches(const std::string& glob, const Names& names) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return base::globMatches(glob, name); });
}

void addDeadRules(const Policy& policy, Names& warnings) {
  for (const DeadRule& dead : deadRules(policy)) {
    std::string earlier;
    for (const Rule* rule : dead.covered_by)
      earlier += (earlier.empty() ? "" : ", ") + inQuotes(rule->name);
    const std::string why = dead.covered_by.size() == 1
                                ? earlier + " before it matches everything that it does"
                            : dead.covered_by.empty() ? dead.why
                                                      : earlier +
                                                            " before it together match everything "
                                                            "that it does";
    warnings.push_back("rule " + inQuotes(dead.rule->name) + " never decides: " + why);
  }
}

void addSmallLimits(const Rule& rule, Names& warnings) {
  for (const Least& least : kLeast) {
    const model::LimitKind& field = model::limitKinds()[model::limitIndex(least.limit)];
    if (field.get(rule.max) >= least.value) continue;
    warnings.push_back(inRule(rule) + "max." + std::string(least.limit) +
                       " is too small for any program; give at least " + std::string(least.shown));
  }
}

// Names in rules: a language's own name, or "command".
Names languageNames(const ReaderParts& parts) {
  Names names = {"command"};
  for (const model::Language& language : parts.languages.all())
    names.push_back(language.name);
  return names;
}

std::string unknownLanguage(const std::string& name, const ReaderParts& parts) {
  const model::Language* alias = parts.languages.find(name);
  return inQuotes(name) + (alias == nullptr ? " is no language of this service"
                                            : " is another name of the language " +
                                                  inQuotes(alias->name) + ", and never matches");
}

void addLanguages(const Rule& rule, const ReaderParts& parts, Names& warnings) {
  const Names known = languageNames(parts);
  for (const std::string& glob : rule.match.languages) {
    if (anyMatches(glob, known)) continue;
    warnings.push_back(inRule(rule) + "match.languages: " + unknownLanguage(glob, parts));
  }
}

void addImages(const Rule& rule, const ReaderParts& parts, Names& warnings) {
  const bool connected = parts.runtimes != nullptr && !parts.runtimes->empty();
  if (rule.effect == Effect::kDeny || !connected) return;
  Names known = {std::string(model::kHostImage)};
  if (parts.images != nullptr) {
    for (const model::OfferedImage& image : *parts.images)
      known.push_back(image.name);
  }
  if (!anyMatches(rule.image, known)) {
    warnings.push_back(inRule(rule) + "image: " + inQuotes(rule.image) + " is not on this node");
  }
  for (const std::string& glob : rule.images) {
    if (glob == "*" || anyMatches(glob, known)) continue;
    warnings.push_back(inRule(rule) + "images: " + inQuotes(glob) + " is not on this node");
  }
}

// An approval that only such roles may give is never given within the tenant.
void addApprovers(const std::string& where, const Approval& approval, Names& warnings) {
  for (const std::string& name : approval.roles) {
    const auto role = model::roleFromName(name);
    const std::string why = role ? neverDecides(*role) : "";
    if (!why.empty()) warnings.push_back(where + "approve.roles: " + why);
  }
}

void addTiers(const Policy& policy, Names& warnings) {
  for (size_t i = 0; i < kTiers; ++i) {
    const std::string name(tierName(static_cast<Tier>(i)));
    if (policy.tiers[i].approve) {
      addApprovers("tiers." + name + ".", *policy.tiers[i].approve, warnings);
    }
  }
}

bool matchesTier(const Rule& rule, std::string_view tier) {
  const Names& tiers = rule.match.network_tiers;
  return tiers.empty() || std::ranges::any_of(tiers, [&](const std::string& glob) {
           return base::globMatches(glob, tier);
         });
}

bool namesTier(const Rule& rule, std::string_view tier) {
  const Names& tiers = rule.match.network_tiers;
  return std::ranges::find(tiers, tier) != tiers.end();
}

// Silence grants no network, so a tier that a rule names needs more than its name.
void addNetwork(const Rule& rule, const ReaderParts& parts, Names& warnings) {
  if (rule.effect == Effect::kDeny) return;
  const bool gateway =
      rule.packages && parts.packages != nullptr && !parts.packages->ecosystems().empty();
  if (namesTier(rule, "restricted") && rule.network.empty() && !gateway) {
    warnings.push_back(
        inRule(rule) +
        "it names the network tier restricted and grants no destination; add network");
  }
  const auto any_name = [](const model::NetworkEntry& entry) {
    return entry.name == model::kAnyName;
  };
  if (namesTier(rule, "full") && std::ranges::none_of(rule.network, any_name)) {
    warnings.push_back(inRule(rule) +
                       "it names the network tier full without an entry of network for the name *");
  }
  const auto usesNetwork = [&](std::string_view tier) { return matchesTier(rule, tier); };
  constexpr std::array<std::string_view, 3> kByEntries = {"restricted", "internal", "full"};
  if (!rule.network.empty() && std::ranges::none_of(kByEntries, usesNetwork)) {
    warnings.push_back(inRule(rule) +
                       "network: match.network_tiers leaves out every tier that uses it");
  }
}

bool reaches(const Rule& rule, const std::string& host) {
  return std::ranges::any_of(rule.network, [&](const model::NetworkEntry& entry) {
    return entry.name == model::kAnyName || model::coversPattern(entry.name, host) ||
           model::coversPattern(host, entry.name);
  });
}

void addSecrets(const Rule& rule, Names& warnings) {
  for (const model::SecretGrant& grant : rule.secrets) {
    if (grant.name == "*") {
      warnings.push_back(inRule(rule) + "secrets: the name * grants every secret of the tenant");
    }
    for (const std::string& host : grant.hosts) {
      if (reaches(rule, host)) continue;
      warnings.push_back(inRule(rule) + "secrets: " + inQuotes(host) +
                         " gets a secret, and the rule's network does not reach it");
    }
  }
}

void addTable(std::string_view name, const PointTable& table, const Names& known,
              std::string_view what, Names& warnings) {
  for (const auto& [key, points] : table.points) {
    if (key == "other" || anyMatches(key, known)) continue;
    warnings.push_back("risk." + std::string(name) + ": " + inQuotes(key) + " is no " +
                       std::string(what));
  }
}

void addRisk(const RiskWeights& risk, const ReaderParts& parts, Names& warnings) {
  Names roles;
  for (const model::Role role : model::kAllRoles)
    roles.emplace_back(model::roleName(role));
  addTable("languages", risk.languages, languageNames(parts), "language of this service", warnings);
  addTable("network", risk.network, {model::kNetworkTiers.begin(), model::kNetworkTiers.end()},
           "network tier", warnings);
  addTable("roles", risk.roles, roles, "role", warnings);
}

}  // namespace

std::vector<std::string> warningsOf(const Policy& policy, const ReaderParts& parts) {
  Names warnings;
  addDeadRules(policy, warnings);
  for (const Rule& rule : policy.rules) {
    addLanguages(rule, parts, warnings);
    addImages(rule, parts, warnings);
    addNetwork(rule, parts, warnings);
    addSecrets(rule, warnings);
    if (rule.effect != Effect::kDeny) addSmallLimits(rule, warnings);
    if (rule.effect == Effect::kApprove) addApprovers(inRule(rule), rule.approval, warnings);
  }
  addTiers(policy, warnings);
  addRisk(policy.risk, parts, warnings);
  if (policy.format == 1) {
    warnings.emplace_back("version 1 is still read; version 2 can say more (docs/POLICY.md)");
  }
  return warnings;
}

}  // namespace cloister::policy

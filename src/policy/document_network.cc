// SPDX-License-Identifier: Apache-2.0
#include "policy/document_network.h"

#include <algorithm>

namespace cloister::policy {
namespace {

std::unexpected<Error> wrong(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

Result<> refuseSecrets(const base::json::object& entry, const std::string& path) {
  if (entry.contains("secrets")) {
    return wrong(path + ".secrets",
                 "is a member of the rule, beside network; the rule's `hosts` bind each secret");
  }
  return {};
}

Result<model::NetworkEntry> readEntry(const base::json::value& value, const std::string& path,
                                      const Rule& rule) {
  if (const base::json::object* object = value.if_object()) TRY(refuseSecrets(*object, path));
  model::NetworkEntry entry = TRY(model::readNetworkEntry(value, path, true));
  const auto& tiers = rule.match.network_tiers;
  if (entry.name != model::kAnyName || std::ranges::find(tiers, "full") != tiers.end())
    return entry;
  return wrong(
      path + ".name",
      "\"*\" is every public name, for the tier full; name full in match.network_tiers, or "
      "write names such as *.example.org");
}

}  // namespace

Result<> readDestinations(base::ObjectReader& reader, std::string_view name, Rule& rule) {
  const base::json::array* items = TRY(reader.array(name));
  if (items == nullptr) return {};
  const std::string path = reader.pathOf(name);
  if (items->empty()) return wrong(path, "is empty; leave it out to grant no destination");
  if (items->size() > model::kMaxNetworkEntries) {
    return wrong(path, "has more than " + std::to_string(model::kMaxNetworkEntries) + " entries");
  }
  for (const base::json::value& item : *items) {
    const std::string at = path + "[" + std::to_string(rule.network.size()) + "]";
    rule.network.push_back(TRY(readEntry(item, at, rule)));
  }
  return {};
}

Result<> readRuleNetwork(base::ObjectReader& reader, Rule& rule) {
  if (const base::json::value* secrets = reader.any("secrets")) {
    rule.secrets = TRY(model::readSecretGrants(*secrets, reader.pathOf("secrets")));
  }
  rule.packages = TRY(reader.boolean("packages")).value_or(true);
  return readDestinations(reader, "network", rule);
}

}  // namespace cloister::policy

// SPDX-License-Identifier: Apache-2.0
#include "model/capability.h"

#include <algorithm>

namespace cloister::model {

Result<std::optional<std::vector<std::string>>> readCapabilities(base::ObjectReader& reader,
                                                                 std::string_view name) {
  const base::json::array* items = TRY(reader.array(name));
  if (items == nullptr) return std::nullopt;
  const std::string field = reader.pathOf(name);
  const auto invalid = [&](const std::string& why) {
    const std::vector<std::string> known(kCapabilities.begin(), kCapabilities.end());
    return fail(Code::kInvalid, field + ": " + why + capabilityNames(known), field);
  };
  if (items->empty()) return invalid("is empty; leave it out, or name some of ");
  std::vector<std::string> capabilities;
  for (const base::json::value& item : *items) {
    const base::json::string* word = item.if_string();
    const auto is = [&](std::string_view each) { return word != nullptr && *word == each; };
    if (std::ranges::none_of(kCapabilities, is)) return invalid("each must be one of ");
    capabilities.emplace_back(*word);
  }
  std::ranges::sort(capabilities);
  const auto repeated = std::ranges::unique(capabilities);
  capabilities.erase(repeated.begin(), repeated.end());
  return capabilities;
}

std::string capabilityNames(const std::vector<std::string>& capabilities) {
  std::string names;
  for (const std::string& each : capabilities)
    names += (names.empty() ? "" : ", ") + each;
  return names;
}

}  // namespace cloister::model

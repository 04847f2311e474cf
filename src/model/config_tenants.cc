// SPDX-License-Identifier: Apache-2.0
#include "model/config_tenants.h"

#include <string>
#include <utility>

namespace cloister::model {

Result<> readTenantRules(const YAML::Node& file, const ApplyRules& apply, Config& config) {
  const auto member = [](const YAML::Node& map, const char* name) {
    const YAML::Node found = map.IsMap() ? map[name] : YAML::Node();
    return found.IsDefined() ? found : YAML::Node();
  };
  const YAML::Node tenants = member(member(file, "packages"), "tenants");
  const bool wanted = !config.packages.tenants.empty();
  config.packages.tenants.clear();
  if (!tenants.IsMap()) {
    constexpr const char* kPath = "packages.tenants";
    if (!wanted) return {};
    return fail(Code::kInvalid, "packages.tenants: must be a map within `packages`", kPath);
  }
  constexpr size_t kMost = 1000;
  if (tenants.size() > kMost) {
    return fail(Code::kInvalid, "packages.tenants: has more than 1000 tenants", "packages.tenants");
  }
  for (const auto& entry : tenants) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const std::string path = "packages.tenants." + name;
    const YAML::Node rules = member(entry.second, "rules");
    if (!rules.IsMap() || entry.second.size() != 1) {
      return fail(Code::kInvalid, path + ": must be a map with `rules` alone", path);
    }
    Config own;
    own.packages.rules = config.packages.rules;
    if (auto read = apply(rules, own); !read) {
      read.error().field = path;
      return std::unexpected(std::move(read).error().within(path));
    }
    if (!config.packages.tenants.emplace(name, own.packages.rules).second) {
      return fail(Code::kInvalid, path + ": given twice", path);
    }
  }
  return {};
}

}  // namespace cloister::model

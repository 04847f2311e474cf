// SPDX-License-Identifier: Apache-2.0
// Package rules: which packages the gateway of cloister-egress offers to sandboxes, and the
// configuration of its upstreams (`packages`). docs/PACKAGES.md explains each rule.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

enum class Ecosystem : uint8_t { kPypi, kNpm };
std::string_view ecosystemName(Ecosystem ecosystem);  // "pypi", "npm"

// The names under which the gateway answers inside of sandboxes, on port 80, as plain HTTP.
inline constexpr std::string_view kPypiName = "pypi.cloister.internal";
inline constexpr std::string_view kNpmName = "npm.cloister.internal";

// `packages.rules`, for all tenants; `packages.tenants.NAME.rules` replaces single members.
struct PackageRules {
  bool undated_allowed = false;    // `undated`: versions without a date of publication
  uint32_t cooldown_days = 0;      // younger versions are refused
  bool sdists_allowed = false;     // PyPI: source distributions
  bool scripts_allowed = false;    // npm: packages with install scripts
  std::vector<std::string> allow;  // "numpy", "numpy>=1.26,<3", "@scope/*"; empty: every name
  std::vector<std::string> deny;   // the same form; stronger than `allow`
  std::vector<std::string> pins;   // "NAME==VERSION sha256:HEX": other content is refused
  uint64_t max_bytes = uint64_t{512} << 20;  // of one file

  friend bool operator==(const PackageRules&, const PackageRules&) = default;
};

// An upstream of the gateway.
struct PackageSource {
  std::string index;             // http[s]://…, or an absolute path of a folder; "": no packages
  std::string credentials_file;  // "USER:PASSWORD" or "Bearer TOKEN"; "": none
};

// The part of a plan: whether the gateway answers this sandbox, and by which rules.
struct PlanPackages {
  std::vector<Ecosystem> ecosystems;  // never empty
  PackageRules rules;
  std::string cutoff;  // RFC 3339: versions published later are not there; "": the present time

  friend bool operator==(const PlanPackages&, const PlanPackages&) = default;
};

base::json::object toJsonObject(const PackageRules& rules);
Result<PackageRules> readPackageRules(const base::json::object& object, const std::string& path);

}  // namespace cloister::model

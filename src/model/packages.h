// SPDX-License-Identifier: Apache-2.0
// Package rules: which packages the gateway of cloister-egress offers to sandboxes, and the
// configuration of its upstreams (`packages`). docs/PACKAGES.md explains each rule.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

enum class Ecosystem : uint8_t { kPypi, kNpm };
std::string_view ecosystemName(Ecosystem ecosystem);  // "pypi", "npm"
std::optional<Ecosystem> ecosystemFromName(std::string_view name);

// The names under which the gateway answers inside of sandboxes, on port 80, as plain HTTP.
inline constexpr std::string_view kPypiName = "pypi.cloister.internal";
inline constexpr std::string_view kNpmName = "npm.cloister.internal";
std::string_view gatewayName(Ecosystem ecosystem);
// nullopt: the name is none of the gateway.
std::optional<Ecosystem> ecosystemOfGateway(std::string_view name);

// The rules of the gateway, by their names in records (egress/packages/judgement.h says what each
// refuses).
inline constexpr std::array<std::string_view, 10> kPackageRuleNames = {
    "packages.deny",      "packages.allow",  "packages.undated", "packages.cooldown",
    "packages.cutoff",    "packages.sdists", "packages.scripts", "packages.pins",
    "packages.max_bytes", "packages.hash"};
bool isPackageRule(std::string_view name);

// `packages.rules`, for all tenants; `packages.tenants.NAME.rules` replaces single members.
struct PackageRules {
  bool undated_allowed = false;         // `undated`: versions without a date of publication
  uint32_t cooldown_days = 0;           // younger versions are refused
  bool sdists_allowed = false;          // PyPI: source distributions
  bool scripts_allowed = false;         // npm: packages with install scripts
  std::vector<std::string> allow = {};  // "numpy", "numpy>=1.26,<3", "@scope/*"; empty: every name
  std::vector<std::string> deny = {};   // the same form; stronger than `allow`
  std::vector<std::string> pins = {};   // "NAME==VERSION sha256:HEX": other content is refused;
                                        // package_selector.h reads the items of the three lists
  uint64_t max_bytes = uint64_t{512} << 20;  // of one file

  friend bool operator==(const PackageRules&, const PackageRules&) = default;
};

// An upstream of the gateway.
struct PackageSource {
  std::string index;             // http[s]://…, or an absolute path of a folder; "": no packages
  std::string credentials_file;  // "USER:PASSWORD" or "Bearer TOKEN"; "": none
  std::vector<std::string> file_hosts;  // that may serve files beside the index, over TLS

  friend bool operator==(const PackageSource&, const PackageSource&) = default;
};

// The section `packages` of the configuration.
struct PackageSettings {
  PackageSource pypi = {
      .index = {}, .credentials_file = {}, .file_hosts = {"files.pythonhosted.org"}};
  PackageSource npm;       // its index is `packages.npm.registry`
  std::string ca_file;     // authorities of the upstreams; "": the system's
  std::string advisories;  // folder of OSV files; "": none
  PackageRules rules;
  std::map<std::string, PackageRules> tenants;  // complete: `rules` with the tenant's members
  uint32_t index_seconds = 60;                  // how long an index is kept
  uint32_t index_mb = 32;                       // the largest index, MiB
  uint32_t timeout_seconds = 60;                // for an index, and between bytes of a file
  uint32_t concurrent = 32;                     // requests to the upstreams at once
  // Of the sandbox that installs `deps`.
  uint32_t build_seconds = 600;
  uint32_t build_memory_mb = 1024;
  uint32_t build_disk_mb = 2048;
  uint32_t max_building = 4;  // such sandboxes at once

  [[nodiscard]] const PackageSource& source(Ecosystem ecosystem) const {
    return ecosystem == Ecosystem::kPypi ? pypi : npm;
  }
  // The ecosystems with an upstream.
  [[nodiscard]] std::vector<Ecosystem> ecosystems() const;
  [[nodiscard]] const PackageRules& rulesOf(const std::string& tenant) const;
  // For `weakened` of each result whose sandbox had the gateway: an upstream over plain HTTP. "":
  // none.
  [[nodiscard]] std::string weakness() const;
};

// Checks the form of each setting. Errors name the key, as `packages.pypi.index`.
Result<> checkPackages(const PackageSettings& packages);
// Errors name the member below `path`.
Result<> checkPackageRules(const PackageRules& rules, const std::string& path);

// Variables for programs of a sandbox with a network: the package tools ask the gateway, and
// install below /home/user/.local. Values of the request take precedence.
std::vector<std::pair<std::string, std::string>> packageEnvironment(
    const std::vector<Ecosystem>& ecosystems);

// The part of a plan: whether the gateway answers this sandbox, and by which rules.
struct PlanPackages {
  std::vector<Ecosystem> ecosystems;  // never empty
  PackageRules rules = {};
  std::string cutoff =
      {};  // RFC 3339: versions published later are not there; "": the present time

  friend bool operator==(const PlanPackages&, const PlanPackages&) = default;
};

// The canonical forms; members with their default are left out.
base::json::object toJsonObject(const PackageRules& rules);
base::json::object toJsonObject(const PlanPackages& packages);
// Errors name the member below `path`.
Result<PackageRules> readPackageRules(const base::json::object& object, const std::string& path);
Result<PlanPackages> readPlanPackages(const base::json::object& object, const std::string& path);

}  // namespace cloister::model

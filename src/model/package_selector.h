// SPDX-License-Identifier: Apache-2.0
// PackageSelector: the packages that an item of `allow` or `deny` names, and PackagePin: the
// content that an item of `pins` expects. Pure; thread-safe.
//
//   numpy                a name, in every ecosystem
//   pypi:numpy>=1.26,<3  a name in one ecosystem, with conditions on the version
//   @scope/*  acme-*     names with a common beginning
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/package_version.h"
#include "model/packages.h"

namespace cloister::model {

// The spelling that stands for all spellings of a project's name (PEP 503).
std::string normalName(std::string_view name);
// Whether the text can be a name in the ecosystem. Such a name has no character with a meaning in
// paths of URLs, but for the one "/" behind the scope of npm.
bool isPackageName(Ecosystem ecosystem, std::string_view name);

struct PackageSelector {
  std::optional<Ecosystem> only;             // nullopt: every ecosystem
  std::string name;                          // as given; without the "*"
  bool prefix = false;                       // names that begin with `name`
  std::vector<VersionCondition> conditions;  // all have to be met; none: every version

  [[nodiscard]] bool covers(Ecosystem ecosystem, std::string_view package) const;
  // The conditions alone. A version that is malformed meets none.
  [[nodiscard]] bool meetsAll(Ecosystem ecosystem, std::string_view version) const;
};

struct PackagePin {
  std::optional<Ecosystem> only;
  std::string name;
  std::string version;
  std::string sha256;  // 64 hex digits

  [[nodiscard]] bool covers(Ecosystem ecosystem, std::string_view package,
                            std::string_view of) const;
};

// kInvalid says what is wrong with the text.
Result<PackageSelector> readPackageSelector(std::string_view text);
Result<PackagePin> readPackagePin(std::string_view text);

}  // namespace cloister::model

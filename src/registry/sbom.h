// SPDX-License-Identifier: Apache-2.0
// Bills of materials of images: CycloneDX and SPDX 2 in JSON, as far as their packages. Hostile and
// bounded; unused members are ignored. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::registry {

// A package URL (https://github.com/package-url/purl-spec), or a name alone.
struct SbomPackage {
  std::string type = "generic";  // "deb", "pypi", "npm"
  std::string space;             // "debian", "@scope"
  std::string name;
  std::string version;   // "": unknown
  std::string distro;    // qualifier: "debian-12"
  std::string upstream;  // qualifier: the source package, with "@VERSION" if it differs

  [[nodiscard]] std::string fullName() const;  // "@scope/name"
  [[nodiscard]] std::string text() const;      // for messages: "deb/debian/openssl 3.0.11-1"
};
inline constexpr size_t kMostPackages = 200'000;

Result<SbomPackage> parsePurl(std::string_view text);

// Whether a media type is of a bill of materials that parseSbom() reads.
bool isSbomType(std::string_view media_type);
// The same for the type of an in-toto predicate.
bool isSbomPredicate(std::string_view type);

// kInvalid for another document, for a malformed one, and for one without any package.
Result<std::vector<SbomPackage>> parseSbom(const base::json::value& bill);

// Whether an item of images.deny covers the package: "NAME" or "TYPE/NAME", with * for any text.
bool denies(std::string_view item, const SbomPackage& package);

}  // namespace cloister::registry

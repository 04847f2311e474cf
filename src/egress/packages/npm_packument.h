// SPDX-License-Identifier: Apache-2.0
// NpmPackage: a document of npm's registry about all versions of a package (a packument), read from
// the registry and written for a sandbox. The bytes of the registry are hostile: only the members
// that tools need are kept. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "egress/packages/judgement.h"
#include "egress/packages/upstream_url.h"

namespace cloister::egress {

struct NpmRelease {
  std::string version;
  std::optional<int64_t> published = {};  // wall-clock microseconds
  bool scripts = false;                   // install scripts, as far as the document says
  UpstreamUrl tarball;
  std::string integrity = {};   // "sha512-…" (Subresource Integrity); "": none
  std::string shasum = {};      // SHA-1 in hex; "": none
  base::json::object manifest;  // the kept members, without `dist`

  [[nodiscard]] Candidate candidate() const {
    return {.version = version,
            .published = published,
            .sdist = false,
            .scripts = scripts,
            .size = {},
            .sha256 = {}};
  }
};

struct NpmPackage {
  std::string name;
  std::vector<NpmRelease> releases;  // in the order of the document
  std::map<std::string, std::string> tags;
  size_t bytes = 0;  // about, of memory

  [[nodiscard]] const NpmRelease* find(std::string_view version) const;
};

inline constexpr size_t kMostReleases = 20'000;

// kInvalid: no packument of the package `name`.
Result<NpmPackage> readPackument(const base::json::value& document, std::string_view name,
                                 const UpstreamUrl& base);
// Whether a manifest (of a packument, or of a tarball) has scripts that run at the install. `why`:
// a sentence's end about the first.
bool hasInstallScripts(const base::json::object& manifest, std::string& why);

// "demo-1.0.0.tgz" of "@scope/demo"; the version of such a name, "" for another form.
std::string tarballName(std::string_view package, std::string_view version);
std::string versionOfTarball(std::string_view package, std::string_view filename);

// The releases of a package for a sandbox. npm takes a refused release only if no other release
// fits, because the release is deprecated and of no known engine; its tarball is then refused, with
// the rule in npm's own output.
struct NpmOffer {
  std::vector<const NpmRelease*> allowed;
  struct Refused {
    const NpmRelease* release;
    PackageRefusal refusal;
  };
  std::vector<Refused> refused;
  std::map<std::string, std::string> tags;  // of allowed releases, while there are any

  [[nodiscard]] const NpmRelease* find(std::string_view version) const;
};
NpmOffer offerOf(const NpmPackage& package, const PackageJudge& judge);

// The document for a sandbox; `whole`: with the dates and all kept members.
std::string packument(const NpmPackage& package, const NpmOffer& offer, bool whole);
// One release, for GET /NAME/VERSION.
std::string manifestOf(const NpmPackage& package, const NpmRelease& release);

}  // namespace cloister::egress

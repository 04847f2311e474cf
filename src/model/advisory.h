// SPDX-License-Identifier: Apache-2.0
// Advisories about packages in the form of OSV (https://ossf.github.io/osv-schema): which versions
// of a package of PyPI, npm or Debian are affected. Records of other ecosystems are passed over,
// and so are withdrawn records. Doubt counts as affected: an unreadable version or range matches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/packages.h"
#include "model/severity.h"

namespace cloister::model {

enum class AdvisoryEcosystem : uint8_t { kPypi, kNpm, kDebian };

// A package that advisories are looked up for.
struct PackageQuery {
  AdvisoryEcosystem ecosystem = AdvisoryEcosystem::kPypi;
  std::string_view name;  // of Debian: of the source package
  std::string_view version;
  std::string_view release = {};  // of Debian: "12"; "": unknown, which matches every release
};

// A package of an advisory.
struct AffectedPackage {
  struct Event {
    enum class Kind : uint8_t { kIntroduced, kFixed, kLastAffected };
    Kind kind = Kind::kIntroduced;
    std::string version;
  };
  AdvisoryEcosystem ecosystem = AdvisoryEcosystem::kPypi;
  std::string name;                        // in its normal form
  std::string release = {};                // of Debian; "": every release
  std::vector<std::string> versions;       // affected, whatever the ranges say
  std::vector<std::vector<Event>> ranges;  // neither versions nor ranges: every version
};

struct Advisory {
  std::string id;
  std::string summary;
  std::optional<Severity> severity = {};  // the highest in the record; nullopt: none can be read
  std::vector<std::string> aliases = {};  // other ids, as CVE-…
  std::vector<AffectedPackage> affected;
};

// One record; nullopt for a withdrawn one. kInvalid: no record of OSV.
Result<std::optional<Advisory>> parseAdvisory(std::string_view text);

// The first advisory that a version has.
struct AdvisoryHit {
  std::string id;
  std::string summary;
  std::string fixed;  // the lowest later version without it; "": unknown
  std::optional<Severity> severity = {};
  std::vector<std::string> aliases = {};
};

// Immutable.
class Advisories {
 public:
  explicit Advisories(std::vector<std::shared_ptr<const Advisory>> all);
  [[nodiscard]] std::optional<AdvisoryHit> find(Ecosystem ecosystem, std::string_view name,
                                                std::string_view version) const;
  // The advisories that a version has, at most `most`.
  [[nodiscard]] std::vector<AdvisoryHit> findAll(const PackageQuery& query,
                                                 size_t most = SIZE_MAX) const;
  [[nodiscard]] size_t size() const { return all_.size(); }

 private:
  using Key = std::pair<AdvisoryEcosystem, std::string>;
  std::vector<std::shared_ptr<const Advisory>> all_;
  std::map<Key, std::vector<std::pair<const Advisory*, const AffectedPackage*>>> by_package_;
};

// The files `*.json` of a folder. They are read again when they change; a look costs a stat(2) of
// each file. One thread.
class AdvisoryFolder {
 public:
  // `every`: between looks. `key`: of the configuration, for errors.
  AdvisoryFolder(std::string folder, Millis every, std::string key = "packages.advisories");

  // The present advisories. An error names the file: doubt refuses every package.
  Result<std::shared_ptr<const Advisories>> now();

 private:
  struct File {
    std::string stamp;                       // its inode, size and times
    std::shared_ptr<const Advisory> record;  // null: withdrawn
  };
  Result<> look();
  Result<> take(const std::string& name, std::map<std::string, File>& files);

  std::string folder_;
  Millis every_;
  std::string key_;
  base::Monotonic looked_{};
  bool ever_ = false;
  std::map<std::string, File> files_;  // by name
  std::shared_ptr<const Advisories> advisories_;
  Result<> state_;
};

// The folder of `packages.advisories`, looked at so often; null: none.
std::shared_ptr<AdvisoryFolder> advisoriesOf(const std::string& folder, uint32_t seconds);

// The rule of records for versions with an advisory, beside kPackageRuleNames.
inline constexpr std::string_view kAdvisoryRule = "packages.advisories";

}  // namespace cloister::model

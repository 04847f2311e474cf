// SPDX-License-Identifier: Apache-2.0
// PackageJudge: the only evaluator of package rules (model::PackageRules). It judges a version on
// the index, a file on the index, and the file's content again when a sandbox fetches it. Pure, but
// for the present time, which the caller gives. One judge for one request.
//
// | rule | refuses |
// | --- | --- |
// | packages.deny | a name or version of `deny` |
// | packages.allow | a name or version that is not on `allow`, unless `allow` is empty |
// | packages.undated | a version without a date of publication |
// | packages.cooldown | a version younger than `cooldown_days` |
// | packages.cutoff | a version younger than the plan's cutoff |
// | packages.sdists | a source distribution, which runs code when it is installed |
// | packages.scripts | a package of npm with an install script |
// | packages.pins | content other than pinned |
// | packages.max_bytes | a file over `max_bytes` |
// | packages.hash | content other than the index says |
// | packages.advisories | a version that has an advisory (model/advisory.h) |
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/advisory.h"
#include "model/network.h"
#include "model/package_selector.h"
#include "model/packages.h"

namespace cloister::egress {

// In the order of model::kPackageRuleNames, and then model::kAdvisoryRule.
enum class PackageRule : uint8_t {
  kDeny,
  kAllow,
  kUndated,
  kCooldown,
  kCutoff,
  kSdists,
  kScripts,
  kPins,
  kMaxBytes,
  kHash,
  kAdvisories,
};
std::string_view packageRuleName(PackageRule rule);  // "packages.deny"
// The rule for records. Not of any plan; lives for ever.
const model::PlanRule& recordRule(PackageRule rule);

struct PackageRefusal {
  PackageRule rule = PackageRule::kDeny;
  std::string reason;  // a sentence in printable ASCII, without a line break
  std::string remedy;  // a sentence

  // "packages.cooldown: demo 2.0 is …"
  [[nodiscard]] std::string text() const {
    return std::string(packageRuleName(rule)) + ": " + reason;
  }
};

// A version, or a file of one, as an index describes it.
struct Candidate {
  std::string_view version;
  std::optional<int64_t> published = {};  // wall-clock microseconds
  bool sdist = false;
  bool scripts = false;
  std::optional<uint64_t> size = {};
  std::string_view sha256 = {};  // hex; "": not known yet
};

class PackageJudge {
 public:
  // `packages` outlives the judge. `now`: wall-clock microseconds. `advisories`: null for none; an
  // error, which says why they cannot be read, refuses every version.
  PackageJudge(const model::PlanPackages& packages, model::Ecosystem ecosystem,
               std::string_view name, int64_t now,
               Result<std::shared_ptr<const model::Advisories>> advisories = nullptr);

  // Whether no version of the name can be allowed. Such a name is not looked up, so that names
  // carry nothing to the index.
  [[nodiscard]] std::optional<PackageRefusal> name() const;
  [[nodiscard]] std::optional<PackageRefusal> judge(const Candidate& candidate) const;

  // Content that differs from what the index, or the reader of its archive, says.
  [[nodiscard]] PackageRefusal wrongHash(std::string_view file) const;
  [[nodiscard]] PackageRefusal hasScripts(std::string_view version, std::string_view why) const;
  [[nodiscard]] PackageRefusal tooLarge(std::string_view file) const;
  // Whether content with this digest is pinned for the version, or the version has no pin.
  [[nodiscard]] std::optional<PackageRefusal> pins(std::string_view version,
                                                   std::string_view sha256) const;
  [[nodiscard]] bool isPinned(std::string_view version) const;
  [[nodiscard]] uint64_t maxBytes() const { return packages_.rules.max_bytes; }
  [[nodiscard]] bool scriptsAllowed() const { return packages_.rules.scripts_allowed; }

 private:
  [[nodiscard]] std::optional<PackageRefusal> byName(std::string_view version) const;
  [[nodiscard]] std::optional<PackageRefusal> byAdvisory(std::string_view version) const;
  [[nodiscard]] std::optional<PackageRefusal> byDate(const Candidate& candidate) const;
  [[nodiscard]] PackageRefusal notAllowed() const;
  [[nodiscard]] std::string shown(std::string_view version) const;

  const model::PlanPackages& packages_;
  model::Ecosystem ecosystem_;
  std::string name_;
  int64_t now_;
  Result<std::shared_ptr<const model::Advisories>> advisories_;
  std::optional<int64_t> cutoff_;
  std::vector<model::PackageSelector> allow_;  // that cover the name
  std::vector<model::PackageSelector> deny_;
  std::vector<model::PackagePin> pins_;  // all
};

}  // namespace cloister::egress

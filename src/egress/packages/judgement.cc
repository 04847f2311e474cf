// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/judgement.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/nearest.h"

namespace cloister::egress {
namespace {

constexpr int64_t kDay = int64_t{86'400} * 1'000'000;
constexpr size_t kMaxShown = 100;
constexpr auto kRuleNames = [] {
  std::array<std::string_view, model::kPackageRuleNames.size() + 1> names;
  std::ranges::copy(model::kPackageRuleNames, names.begin());
  names.back() = model::kAdvisoryRule;
  return names;
}();

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxShown))
    out += c > ' ' && c < 0x7f ? c : '?';
  return out;
}

// Items were checked with the configuration. A malformed item of `deny` cannot be, so that no
// package passes because of it: the decoder of plans refuses it.
std::vector<model::PackageSelector> covering(const std::vector<std::string>& items,
                                             model::Ecosystem ecosystem, std::string_view name) {
  std::vector<model::PackageSelector> found;
  for (const std::string& item : items) {
    auto selector = model::readPackageSelector(item);
    if (selector && selector->covers(ecosystem, name)) found.push_back(*std::move(selector));
  }
  return found;
}

std::string dayOf(int64_t time) {
  constexpr size_t kDate = 10;
  return base::formatTime(time).substr(0, kDate);
}

}  // namespace

std::string_view packageRuleName(PackageRule rule) {
  return kRuleNames[static_cast<size_t>(rule)];
}

const model::PlanRule& recordRule(PackageRule rule) {
  static const auto kRules = [] {
    std::array<model::PlanRule, kRuleNames.size()> rules;
    for (size_t i = 0; i < rules.size(); ++i)
      rules[i].rule = kRuleNames[i];
    return rules;
  }();
  return kRules[static_cast<size_t>(rule)];
}

PackageJudge::PackageJudge(const model::PlanPackages& packages, model::Ecosystem ecosystem,
                           std::string_view name, int64_t now,
                           Result<std::shared_ptr<const model::Advisories>> advisories)
    : packages_(packages),
      ecosystem_(ecosystem),
      name_(name),
      now_(now),
      advisories_(std::move(advisories)),
      allow_(covering(packages.rules.allow, ecosystem, name)),
      deny_(covering(packages.rules.deny, ecosystem, name)) {
  if (!packages.cutoff.empty()) cutoff_ = base::parseTime(packages.cutoff).value_or(0);
  for (const std::string& item : packages.rules.pins) {
    if (auto pin = model::readPackagePin(item)) pins_.push_back(*std::move(pin));
  }
}

std::string PackageJudge::shown(std::string_view version) const {
  return printable(name_) + (version.empty() ? "" : " " + printable(version));
}

PackageRefusal PackageJudge::notAllowed() const {
  std::vector<std::string> names;
  for (const std::string& item : packages_.rules.allow) {
    const auto selector = model::readPackageSelector(item);
    if (selector && !selector->prefix) names.push_back(selector->name);
  }
  const std::string nearest = base::nearestName(name_, names);
  return {PackageRule::kAllow,
          printable(name_) + " is not on the list of allowed packages" +
              (nearest.empty() ? "" : "; did you mean " + printable(nearest) + "?"),
          "Check the spelling, or ask the operator to add the package to packages.rules.allow."};
}

std::optional<PackageRefusal> PackageJudge::name() const {
  const auto whole = [](const model::PackageSelector& each) { return each.conditions.empty(); };
  if (std::ranges::any_of(deny_, whole)) return byName("");
  if (!packages_.rules.allow.empty() && allow_.empty()) return notAllowed();
  return std::nullopt;
}

std::optional<PackageRefusal> PackageJudge::byName(std::string_view version) const {
  const auto meets = [&](const model::PackageSelector& each) {
    return each.meetsAll(ecosystem_, version);
  };
  if (std::ranges::any_of(deny_, meets)) {
    return PackageRefusal{
        PackageRule::kDeny, shown(version) + " is on the list of denied packages",
        "Use another version or package, or ask the operator (packages.rules.deny)."};
  }
  if (packages_.rules.allow.empty() || std::ranges::any_of(allow_, meets)) return std::nullopt;
  if (allow_.empty()) return notAllowed();
  return PackageRefusal{
      PackageRule::kAllow,
      shown(version) + " is not a version that the list of allowed packages names",
      "Use an allowed version, or ask the operator (packages.rules.allow)."};
}

std::optional<PackageRefusal> PackageJudge::byAdvisory(std::string_view version) const {
  if (!advisories_) {
    return PackageRefusal{PackageRule::kAdvisories, "the advisories about packages cannot be read",
                          "Ask the operator to look at packages.advisories."};
  }
  if (*advisories_ == nullptr) return std::nullopt;
  const auto hit = (*advisories_)->find(ecosystem_, name_, version);
  if (!hit) return std::nullopt;
  return PackageRefusal{PackageRule::kAdvisories,
                        shown(version) + " has the advisory " + hit->id +
                            (hit->summary.empty() ? "" : ": " + hit->summary),
                        hit->fixed.empty() ? "Use another version or package, or ask the operator "
                                             "(packages.advisories)."
                                           : "Use version " + hit->fixed +
                                                 " or later, or ask the operator "
                                                 "(packages.advisories)."};
}

std::optional<PackageRefusal> PackageJudge::byDate(const Candidate& candidate) const {
  const model::PackageRules& rules = packages_.rules;
  if (!candidate.published) {
    if (rules.undated_allowed && !cutoff_) return std::nullopt;
    return PackageRefusal{PackageRule::kUndated,
                          shown(candidate.version) + " has no date of publication in the index",
                          "Use an index that has dates (PEP 700), or ask the operator "
                          "(packages.rules.undated)."};
  }
  const int64_t published = *candidate.published;
  if (cutoff_ && published > *cutoff_) {
    return PackageRefusal{
        PackageRule::kCutoff,
        shown(candidate.version) + " was published on " + dayOf(published) + ", after the cutoff",
        "Use an older version."};
  }
  if (rules.cooldown_days == 0 || published <= now_ - rules.cooldown_days * kDay) {
    return std::nullopt;
  }
  return PackageRefusal{PackageRule::kCooldown,
                        shown(candidate.version) + " was published on " + dayOf(published) +
                            ", less than " + std::to_string(rules.cooldown_days) + " days ago",
                        "Use an older version, or wait."};
}

std::optional<PackageRefusal> PackageJudge::judge(const Candidate& candidate) const {
  if (auto refusal = byName(candidate.version)) return refusal;
  if (auto refusal = byAdvisory(candidate.version)) return refusal;
  if (auto refusal = byDate(candidate)) return refusal;
  if (candidate.sdist && !packages_.rules.sdists_allowed) {
    return PackageRefusal{
        PackageRule::kSdists,
        shown(candidate.version) +
            " is a source distribution, which runs code when it is installed",
        "Use a version with a wheel, or ask the operator (packages.rules.sdists)."};
  }
  if (candidate.scripts && !scriptsAllowed()) {
    return hasScripts(candidate.version, "it has an install script");
  }
  if (candidate.size && *candidate.size > maxBytes()) return tooLarge(shown(candidate.version));
  return candidate.sha256.empty() ? std::nullopt : pins(candidate.version, candidate.sha256);
}

PackageRefusal PackageJudge::wrongHash(std::string_view file) const {
  return {PackageRule::kHash, printable(file) + " has other content than the index says",
          "Report it to the operator: the index or the way to it has changed the file."};
}

PackageRefusal PackageJudge::hasScripts(std::string_view version, std::string_view why) const {
  return {PackageRule::kScripts,
          shown(version) + " would run code when it is installed: " + std::string(why),
          "Use a package without install scripts, or ask the operator (packages.rules.scripts)."};
}

PackageRefusal PackageJudge::tooLarge(std::string_view file) const {
  return {PackageRule::kMaxBytes,
          std::string(file) + " is larger than " + std::to_string(maxBytes()) + " bytes",
          "Use a smaller package, or ask the operator (packages.rules.max_bytes)."};
}

bool PackageJudge::isPinned(std::string_view version) const {
  return std::ranges::any_of(
      pins_, [&](const model::PackagePin& pin) { return pin.covers(ecosystem_, name_, version); });
}

std::optional<PackageRefusal> PackageJudge::pins(std::string_view version,
                                                 std::string_view sha256) const {
  const auto same = [&](const model::PackagePin& pin) {
    return pin.covers(ecosystem_, name_, version) && pin.sha256 == sha256;
  };
  if (!isPinned(version) || std::ranges::any_of(pins_, same)) return std::nullopt;
  return PackageRefusal{PackageRule::kPins,
                        shown(version) + " has other content than the operator pinned",
                        "Ask the operator to look at packages.rules.pins."};
}

}  // namespace cloister::egress

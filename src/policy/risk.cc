// SPDX-License-Identifier: Apache-2.0
#include "policy/risk.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/glob.h"
#include "policy/command/effects.h"
#include "policy/command/filter.h"
#include "policy/shellouts.h"

namespace cloister::policy {

using base::globMatches;

namespace {

constexpr std::string_view kOther = "other";
// The kind for possible matches of a rule, such as `rm -rf "$DIR"`, common in ordinary scripts.
constexpr std::string_view kPerhaps = "perhaps";
constexpr std::array<std::string_view, 2> kShells = {"bash", "sh"};  // whose code is a command

bool isShell(const std::string& language, const model::LanguageSet& languages) {
  const model::Language* known = languages.find(language);
  return known != nullptr && std::ranges::find(kShells, known->name) != kShells.end();
}

using Kinds = std::set<std::string>;

void addKinds(Effects effects, const Level& level, Kinds& kinds) {
  for (const struct Risk& risk : judgeCommand(level, std::move(effects)).risks) {
    if (risk.outcome == Outcome::kAllow) continue;
    kinds.insert(risk.certain ? risk.kind : std::string(kPerhaps));
  }
}

// Adds up, and remembers how.
class Sum {
 public:
  explicit Sum(std::vector<RiskLine>* lines) : lines_(lines) {}
  void add(std::string_view factor, std::string_view what, int points) {
    if (points == 0) return;
    total_ += points;
    if (lines_ == nullptr) return;
    lines_->push_back({.factor = std::string(factor), .what = std::string(what), .points = points});
  }
  [[nodiscard]] int total() const { return total_; }

 private:
  std::vector<RiskLine>* lines_;
  int total_ = 0;
};

void addPrincipal(const RiskWeights& weights, const model::Principal& principal, Sum& sum) {
  std::string_view riskiest;
  int most = 0;
  for (const std::string_view role : model::names(principal.roles)) {
    if (weights.roles.of(role) <= most) continue;
    most = weights.roles.of(role);
    riskiest = role;
  }
  sum.add("principal", "role " + std::string(riskiest), most);
  sum.add("principal", "tenant " + principal.tenant, weights.tenants.of(principal.tenant));
}

void addFacts(const RiskWeights& weights, const RiskFacts& facts, Sum& sum) {
  for (const std::string& kind : facts.command_risks)
    sum.add("command", kind, weights.commands.of(kind));
  if (weights.secrets.each == 0) return;
  const auto secret = [&](const std::string& name) {
    return std::ranges::any_of(weights.secret_names,
                               [&](const auto& glob) { return globMatches(glob, name); });
  };
  const auto count = static_cast<size_t>(std::ranges::count_if(facts.variables, secret));
  sum.add("secrets", std::to_string(count) + " variables named like one",
          weights.secrets.of(count));
}

}  // namespace

RiskFacts riskFactsOf(const model::RunRequest& request, const model::LanguageSet& languages,
                      const Levels* levels) {
  RiskFacts facts;
  for (const auto& [name, value] : request.env)
    facts.variables.push_back(name);
  if (levels == nullptr || !levels->levels.contains(kRiskLevel)) return facts;
  const Level& level = levels->levels.find(kRiskLevel)->second;
  const CommandBounds& bounds = levels->bounds;
  const ImageNames* image = levels->image.get();
  Kinds kinds;
  const auto addText = [&](const std::string& text) {
    addKinds(effectsOf(text, bounds, image), level, kinds);
  };
  const auto addWords = [&](const std::vector<std::string>& argv) {
    addKinds(effectsOfArgv(argv, bounds, image), level, kinds);
  };
  if (const auto* text = std::get_if<std::string>(&request.command)) {
    addText(*text);
  } else if (const auto* argv = std::get_if<std::vector<std::string>>(&request.command)) {
    addWords(*argv);
  } else if (isShell(request.language, languages)) {
    addText(request.code);
  } else if (const model::Language* language = languages.find(request.language)) {
    for (const ShellOut& each : shellOutsOf(language->name, request.code)) {
      if (const auto* line = std::get_if<std::string>(&each)) addText(*line);
      if (const auto* words = std::get_if<std::vector<std::string>>(&each)) addWords(*words);
    }
  }
  facts.command_risks = {kinds.begin(), kinds.end()};
  return facts;
}

int PointTable::of(std::string_view name) const {
  const auto found = points.find(name);
  if (found != points.end()) return found->second;
  const auto other = points.find(kOther);
  return other == points.end() ? 0 : other->second;
}

int PointsEach::of(size_t count) const {
  const uint64_t points = uint64_t{count} * static_cast<uint64_t>(each);
  return static_cast<int>(std::min<uint64_t>(points, static_cast<uint64_t>(most)));
}

int mostPoints(const RiskWeights& weights) {
  constexpr int kMostOtherKinds = 100;  // number of kinds known to the command filter
  const auto highest = [](const PointTable& table) {
    int most = 0;
    for (const auto& [name, points] : table.points)
      most = std::max(most, points);
    return most;
  };
  int most = highest(weights.languages) + highest(weights.network) + highest(weights.roles) +
             highest(weights.tenants) + weights.dependencies.most + weights.secrets.most;
  for (const auto& [kind, points] : weights.commands.points)
    most += points * (kind == kOther ? kMostOtherKinds : 1);
  return most;
}

int riskOf(const RiskWeights& weights, const RiskSubject& subject, std::vector<RiskLine>* lines) {
  Sum sum(lines);
  const std::string_view network = subject.request.network.tier;
  const size_t deps = subject.request.deps.size();
  sum.add("language", subject.language, weights.languages.of(subject.language));
  sum.add("network", network, weights.network.of(network));
  sum.add("dependencies", std::to_string(deps) + " of them", weights.dependencies.of(deps));
  addPrincipal(weights, subject.principal, sum);
  if (subject.facts != nullptr) addFacts(weights, *subject.facts, sum);
  return sum.total();
}

}  // namespace cloister::policy

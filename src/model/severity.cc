// SPDX-License-Identifier: Apache-2.0
#include "model/severity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace cloister::model {
namespace {

using Values = std::map<std::string_view, double>;

// The values of the specification, section 7.4; `PR` is for an unchanged scope.
const std::map<std::string_view, Values>& metrics() {
  static const Values kImpact = {{"H", 0.56}, {"L", 0.22}, {"N", 0}};
  static const std::map<std::string_view, Values> kMetrics = {
      {"AV", {{"N", 0.85}, {"A", 0.62}, {"L", 0.55}, {"P", 0.2}}},
      {"AC", {{"L", 0.77}, {"H", 0.44}}},
      {"PR", {{"N", 0.85}, {"L", 0.62}, {"H", 0.27}}},
      {"UI", {{"N", 0.85}, {"R", 0.62}}},
      {"S", {{"U", 0}, {"C", 1}}},
      {"C", kImpact},
      {"I", kImpact},
      {"A", kImpact},
  };
  return kMetrics;
}

// To one decimal, upwards, without the errors of floating point (section 7, "Roundup").
double roundedUp(double score) {
  constexpr double kScale = 100'000;
  constexpr int64_t kStep = 10'000;
  const int64_t whole = std::llround(score * kScale);
  if (whole % kStep == 0) return static_cast<double>(whole) / kScale;
  const int64_t tenths = whole / kStep + 1;
  return static_cast<double>(tenths) / 10;
}

double scoreOf(const Values& of) {
  const bool changed = of.at("S") > 0;
  const double base = 1 - (1 - of.at("C")) * (1 - of.at("I")) * (1 - of.at("A"));
  const double impact =
      changed ? 7.52 * (base - 0.029) - 3.25 * std::pow(base - 0.02, 15) : 6.42 * base;
  double privileges = of.at("PR");
  if (changed && privileges == 0.62) privileges = 0.68;
  if (changed && privileges == 0.27) privileges = 0.5;
  const double ease = 8.22 * of.at("AV") * of.at("AC") * privileges * of.at("UI");
  if (impact <= 0) return 0;
  return roundedUp(std::min((changed ? 1.08 : 1) * (impact + ease), 10.0));
}

}  // namespace

std::string_view severityName(Severity severity) {
  constexpr std::string_view kNames[] = {"low", "medium", "high", "critical"};
  return kNames[static_cast<size_t>(severity)];
}

std::optional<Severity> severityFromWord(std::string_view word) {
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
  constexpr std::pair<std::string_view, Severity> kWords[] = {
      {"low", Severity::kLow},       {"unimportant", Severity::kLow},
      {"medium", Severity::kMedium}, {"moderate", Severity::kMedium},
      {"high", Severity::kHigh},     {"critical", Severity::kCritical}};
  for (const auto& [name, severity] : kWords) {
    if (name == lower) return severity;
  }
  return std::nullopt;
}

std::optional<double> cvssScore(std::string_view vector) {
  constexpr std::string_view kVersions[] = {"CVSS:3.0/", "CVSS:3.1/"};
  const bool known =
      std::ranges::any_of(kVersions, [&](auto version) { return vector.starts_with(version); });
  if (!known) return std::nullopt;
  vector.remove_prefix(kVersions[0].size());
  Values found;
  while (!vector.empty()) {
    const std::string_view part = vector.substr(0, vector.find('/'));
    vector.remove_prefix(std::min(part.size() + 1, vector.size()));
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto metric = metrics().find(part.substr(0, colon));
    if (metric == metrics().end()) continue;  // temporal and environmental
    const auto value = metric->second.find(part.substr(colon + 1));
    if (value == metric->second.end()) return std::nullopt;
    if (!found.emplace(metric->first, value->second).second) return std::nullopt;
  }
  if (found.size() != metrics().size()) return std::nullopt;
  return scoreOf(found);
}

std::optional<Severity> severityFromCvss(std::string_view vector) {
  const auto score = cvssScore(vector);
  if (!score) return std::nullopt;
  constexpr double kMedium = 4;
  constexpr double kHigh = 7;
  constexpr double kCritical = 9;
  if (*score >= kCritical) return Severity::kCritical;
  if (*score >= kHigh) return Severity::kHigh;
  return *score >= kMedium ? Severity::kMedium : Severity::kLow;
}

}  // namespace cloister::model

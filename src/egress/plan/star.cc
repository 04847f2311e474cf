// SPDX-License-Identifier: Apache-2.0
#include "egress/plan/star.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace cloister::egress {
namespace {

// The bits of information in a text, by the frequency of its characters (Shannon).
double bitsOf(std::string_view text) {
  std::array<size_t, 256> counts{};
  for (const char c : text)
    ++counts[static_cast<uint8_t>(c)];
  double bits = 0;
  for (const size_t count : counts) {
    if (count == 0) continue;
    const auto n = static_cast<double>(count);
    bits += n * std::log2(static_cast<double>(text.size()) / n);
  }
  return bits;
}

// Whether the labels in place of the star of a rule could carry data; a sentence, or "".
std::string carriesData(std::string_view pattern, std::string_view name) {
  constexpr std::string_view kStar = "*.";
  const size_t apex = pattern.size() - kStar.size();
  if (!pattern.starts_with(kStar) || name.size() <= apex + 1) return "";
  const std::string_view labels = name.substr(0, name.size() - apex - 1);
  size_t longest = 0;
  size_t count = 0;
  for (std::string_view rest = labels; !rest.empty(); ++count) {
    const size_t length = std::min(rest.find('.'), rest.size());
    longest = std::max(longest, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  const std::string below = " below " + std::string(pattern) + ": name the host in a rule.";
  if (longest > kMaxStarLabel) return "A label is too long" + below;
  if (count > kMaxStarLabels) return "The name has too many labels" + below;
  if (bitsOf(labels) > kMaxStarBits) return "The name looks like data" + below;
  return "";
}

// Whether a rule has the host itself, not only a pattern for it.
bool isNamed(const model::NetworkPlan& plan, std::string_view host) {
  return std::ranges::any_of(plan.rules,
                             [&](const model::PlanRule& rule) { return rule.entry.name == host; });
}

}  // namespace

std::string dataIn(const model::NetworkPlan& plan, const Verdict& verdict, std::string_view host) {
  if (verdict.rule == nullptr || isNamed(plan, host)) return "";
  return carriesData(verdict.rule->entry.name, host);
}

}  // namespace cloister::egress

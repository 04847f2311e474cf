// SPDX-License-Identifier: Apache-2.0
#include "model/dlp_settings.h"

#include <algorithm>
#include <array>

namespace cloister::model {
namespace {

constexpr std::array<std::string_view, 3> kPlaceNames = {"egress", "output", "artifacts"};
constexpr std::array<std::string_view, 3> kActionNames = {"report", "redact", "refuse"};
constexpr size_t kMostName = 64;
constexpr size_t kMostPattern = 4096;

bool isName(std::string_view name) {
  return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::unexpected<Error> wrong(size_t index, std::string_view member, std::string_view what) {
  const std::string path = "dlp.rules[" + std::to_string(index) + "]." + std::string(member);
  return fail(Code::kInvalid, path + ": " + std::string(what), path);
}

}  // namespace

std::string_view dlpPlaceName(DlpPlace place) {
  return kPlaceNames[static_cast<size_t>(place)];
}

std::string_view dlpActionName(DlpAction action) {
  return kActionNames[static_cast<size_t>(action)];
}

bool DlpRule::looksIn(DlpPlace place) const {
  return std::ranges::find(in, place) != in.end();
}

Result<> checkDlp(const DlpSettings& dlp) {
  if (dlp.rules.size() > kMostDlpRules) {
    return fail(Code::kInvalid,
                "dlp.rules: has more than " + std::to_string(kMostDlpRules) + " rules",
                "dlp.rules");
  }
  for (size_t i = 0; i < dlp.rules.size(); ++i) {
    const DlpRule& rule = dlp.rules[i];
    if (!isName(rule.name)) {
      return wrong(i, "name", "must have 1 to 64 characters: lower case letters, digits, - and _");
    }
    if (rule.pattern.empty() || rule.pattern.size() > kMostPattern) {
      return wrong(i, "pattern", "must be a regular expression of 1 to 4096 bytes");
    }
    if (rule.in.empty())
      return wrong(i, "in", "must list one or more of egress, output, artifacts");
    const auto same = [&](const DlpRule& other) { return other.name == rule.name; };
    if (std::ranges::count_if(dlp.rules, same) > 1) {
      return wrong(i, "name", "\"" + rule.name + "\" is the name of another rule, too");
    }
  }
  return {};
}

}  // namespace cloister::model

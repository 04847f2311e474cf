// SPDX-License-Identifier: Apache-2.0
#include "model/config_dlp.h"

#include <optional>
#include <string>
#include <string_view>

namespace cloister::model {
namespace {

constexpr DlpAction kActions[] = {DlpAction::kReport, DlpAction::kRedact, DlpAction::kRefuse};
constexpr DlpPlace kPlaces[] = {DlpPlace::kEgress, DlpPlace::kOutput, DlpPlace::kArtifacts};

std::unexpected<Error> wrong(const std::string& where, std::string_view what) {
  return fail(Code::kInvalid, where + ": " + std::string(what), where);
}

Result<std::string> textOf(const YAML::Node& node, const std::string& where) {
  if (node.IsScalar() && node.Scalar().find('\0') == std::string::npos) return node.Scalar();
  return wrong(where, "must be text");
}

Result<> readPlaces(const YAML::Node& node, const std::string& where, DlpRule& rule) {
  constexpr std::string_view kWords = "must list one or more of egress, output, artifacts";
  if (!node.IsSequence()) return wrong(where, kWords);
  for (const YAML::Node& item : node) {
    const std::string word = TRY(textOf(item, where));
    const auto* place = std::ranges::find(kPlaces, word, dlpPlaceName);
    if (place == std::end(kPlaces)) return wrong(where, kWords);
    if (!rule.looksIn(*place)) rule.in.push_back(*place);
  }
  return {};
}

Result<> readAction(const YAML::Node& node, const std::string& where, DlpRule& rule) {
  const std::string word = TRY(textOf(node, where));
  const auto* action = std::ranges::find(kActions, word, dlpActionName);
  if (action == std::end(kActions)) return wrong(where, "must be report, redact or refuse");
  rule.action = *action;
  return {};
}

Result<DlpRule> readRule(const YAML::Node& node, const std::string& path) {
  if (!node.IsMap()) return wrong(path, "must be a map with name, pattern, in and action");
  DlpRule rule;
  bool acts = false;
  for (const auto& entry : node) {
    const std::string member = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const std::string where = path + "." + member;
    if (member == "name") {
      rule.name = TRY(textOf(entry.second, where));
    } else if (member == "pattern") {
      rule.pattern = TRY(textOf(entry.second, where));
    } else if (member == "in") {
      TRY(readPlaces(entry.second, where, rule));
    } else if (member == "action") {
      TRY(readAction(entry.second, where, rule));
      acts = true;
    } else {
      return wrong(where, "unknown key; a rule has name, pattern, in and action");
    }
  }
  if (!acts) return wrong(path + ".action", "must be report, redact or refuse");
  return rule;
}

}  // namespace

Result<std::vector<DlpRule>> readDlpRules(const YAML::Node& node) {
  if (!node.IsSequence()) return wrong("dlp.rules", "must be a list of rules");
  std::vector<DlpRule> rules;
  for (size_t i = 0; i < node.size() && i <= kMostDlpRules; ++i)
    rules.push_back(TRY(readRule(node[i], "dlp.rules[" + std::to_string(i) + "]")));
  return rules;
}

}  // namespace cloister::model

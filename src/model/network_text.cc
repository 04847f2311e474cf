// SPDX-License-Identifier: Apache-2.0
#include "model/network_text.h"

#include "model/shown_text.h"

namespace cloister::model {
namespace {

constexpr size_t kMostShown = 1000;  // bytes of a text

std::string shownLine(const DeniedDestination& denied) {
  std::string line = safeText(denied.host, kMostShown);
  if (denied.port != 0) line += ":" + std::to_string(denied.port);
  line += " was refused";
  if (denied.count > 1) line += " " + std::to_string(denied.count) + " times";
  if (!denied.rule.empty()) line += " by rule " + safeText(denied.rule, kMostShown);
  if (!denied.reason.empty()) line += ": " + safeText(denied.reason, kMostShown);
  if (!denied.remedy.empty()) line += "; " + safeText(denied.remedy, kMostShown);
  return line;
}

}  // namespace

std::vector<std::string> networkLines(const NetworkUse& use) {
  std::vector<std::string> lines;
  for (const DeniedDestination& each : use.denied)
    lines.push_back(shownLine(each));
  if (use.denied_left_out > 0)
    lines.push_back(std::to_string(use.denied_left_out) + " further destinations were refused");
  if (use.hint) lines.push_back(safeText(*use.hint, kMostShown));
  return lines;
}

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
#include "cli/render/decision_text.h"

#include "cli/api.h"
#include "cli/render/terminal.h"

namespace cloister::cli {

std::string decisionText(const json::object& answer) {
  const std::string rule = printable(textOf(answer, "rule"));
  std::string text = textOf(answer, "decision") + ": " + printable(textOf(answer, "reason")) +
                     "\n  rule: " + (rule.empty() ? "none" : rule) +
                     "\n  policy: " + printable(textOf(answer, "policy_id")) + "\n";
  if (const std::string remedy = textOf(answer, "remedy"); !remedy.empty()) {
    text += "  instead: " + printable(remedy) + "\n";
  }
  if (const std::string tier = textOf(answer, "tier"); !tier.empty()) {
    text += "  tier: " + tier + ", runtime " + printable(textOf(answer, "runtime")) + "\n";
  }
  for (const json::value& item : arrayOf(answer, "network")) {
    if (item.is_string()) text += "  network: " + printable(item.get_string()) + "\n";
  }
  const json::object& approval = objectOf(answer, "approval");
  if (!approval.empty()) {
    std::string roles;
    for (const json::value& role : arrayOf(approval, "roles")) {
      if (role.is_string()) roles += (roles.empty() ? "" : " or ") + printable(role.get_string());
    }
    text += "  approval: " + textOf(approval, "quorum") + " with the role " + roles + ", within " +
            textOf(approval, "ttl_seconds") + " s\n";
  }
  return text;
}

}  // namespace cloister::cli

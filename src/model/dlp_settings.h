// SPDX-License-Identifier: Apache-2.0
// DLP rules (data loss prevention, `dlp` of the configuration): texts that must not leave, as
// regular expressions of RE2, and the action where one is found. docs/DLP.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::model {

// Where a rule looks.
enum class DlpPlace : uint8_t {
  kEgress,     // HTTP requests that cloister-egress reads
  kOutput,     // of programs
  kArtifacts,  // files that runs leave
};
std::string_view dlpPlaceName(DlpPlace place);  // "egress"

enum class DlpAction : uint8_t { kReport, kRedact, kRefuse };
std::string_view dlpActionName(DlpAction action);  // "report"

struct DlpRule {
  std::string name;  // for records: lower case letters, digits, "-" and "_"
  std::string pattern;
  std::vector<DlpPlace> in;  // never empty
  DlpAction action = DlpAction::kReport;

  [[nodiscard]] bool looksIn(DlpPlace place) const;
  friend bool operator==(const DlpRule&, const DlpRule&) = default;
};

struct DlpSettings {
  std::vector<DlpRule> rules;   // none: nothing is searched
  uint32_t match_bytes = 1024;  // longer matches may be missed
};

inline constexpr size_t kMostDlpRules = 64;

// Checks names and bounds. Errors name the key, as `dlp.rules[0].name`. Patterns are read by
// redact::Rules.
Result<> checkDlp(const DlpSettings& dlp);

}  // namespace cloister::model

// SPDX-License-Identifier: Apache-2.0
// Figures beside their peers' and their limits.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace cloister::bench {

// The figure compared with the limit.
enum class Judge {
  kRatioAtMost,   // figure / peer
  kRatioAtLeast,  // the same
  kAtMost,        // the figure itself
};

struct Target {
  std::string work;
  std::string unit;       // of the figure and of its peer's
  double figure = 0;      // 0: there is none, and `note` says why
  std::string peer = {};  // its name; "" if there is none
  double beside = 0;      // the peer's figure
  Judge judge = Judge::kRatioAtMost;
  double limit = 0;
  std::string note = {};  // the subject of the measurement, or the reason for none
};

// Markdown and JSON: figure, peer's, ratio, limit, and the verdict, each a row.
std::string targetTable(const std::vector<Target>& targets);
base::json::array toJsonArray(const std::vector<Target>& targets);

}  // namespace cloister::bench
